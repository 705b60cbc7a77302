package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const committed = "../../examples/contracts"

// TestCommitted holds the files of examples/contracts to what the program writes, byte for byte.
func TestCommitted(t *testing.T) {
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(committed)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := want[e.Name()]; !ok {
			t.Errorf("%s is not written by this program: delete it, or generate it", e.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want[name]) {
			t.Errorf("%s differs from what this program writes: run go run ./contracts in the tools module", name)
		}
	}
}

// TestShape checks what the examples promise: ten contracts of 3 to 5 pages of 1 800 characters, with 6 to 10 sections.
func TestShape(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 20 {
		t.Errorf("%d files, want ten contracts with ten answers", len(files))
	}
	heading := regexp.MustCompile(`(?m)^(?:## |Статья |РАЗДЕЛ |Article |SECTION )?(?:\d+|[IVX]+)(?:\.| –) \p{Lu}`)
	for _, k := range kinds() {
		text := files[k.name+"."+k.ext]
		if n := len([]rune(string(text))); n < 3*1800 || n > 5*1800 {
			t.Errorf("%s has %d characters", k.name, n)
		}
		if n := len(heading.FindAll(text, -1)); n < 6 || n > 10 {
			t.Errorf("%s has %d sections", k.name, n)
		}
	}
}

// TestTruth checks that each contract really says what its answers claim.
func TestTruth(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		text := strings.Join(strings.Fields(string(files[k.name+"."+k.ext])), " ")
		var answers truth
		if err := json.Unmarshal(files[k.name+".truth.json"], &answers); err != nil {
			t.Fatal(err)
		}
		for _, said := range []string{answers.Number, answers.PartyA, answers.PartyB, answers.Subject} {
			if !strings.Contains(text, said) {
				t.Errorf("%s does not say %q", k.name, said)
			}
		}
	}
}

func TestNumberWords(t *testing.T) {
	for n, want := range map[int64]string{
		1_001: "одна тысяча один", 2_000_012: "два миллиона двенадцать", 11_340_000: "одиннадцать миллионов триста сорок тысяч",
		571_100: "пятьсот семьдесят одна тысяча сто", 21: "двадцать один",
	} {
		if got := numberRU(n); got != want {
			t.Errorf("numberRU(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "zero", 48_500: "forty-eight thousand five hundred", 1_112_000: "one million one hundred twelve thousand", 120: "one hundred twenty",
	} {
		if got := numberEN(n); got != want {
			t.Errorf("numberEN(%d) = %q, want %q", n, got, want)
		}
	}
}
