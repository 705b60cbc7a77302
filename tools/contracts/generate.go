package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"text/template"
)

//go:embed texts
var texts embed.FS

// kind is one of the ten contracts: which text it has, how it is laid out, and what the seed does not decide.
type kind struct {
	name     string // of the files, without extension
	ext      string // of the contract's file: txt or md
	template string // file below texts, without extension
	layout   layout
	variants map[string]int // which wording of each shared section, from 1
	facts    func(*rand.Rand) facts
}

// truth is the answer that a careful reader gives; null fields are the ones that the contract does not state.
type truth struct {
	Number      string      `json:"contract_number"`
	Date        string      `json:"contract_date"`
	PartyA      string      `json:"party_a"`
	PartyB      string      `json:"party_b"`
	Subject     string      `json:"subject"`
	Amount      json.Number `json:"amount"`
	Currency    string      `json:"currency"`
	PaymentDays *int        `json:"payment_term_days"`
	ValidUntil  *string     `json:"valid_until"`
	Law         string      `json:"governing_law"`
}

// generate returns the content of every file by its name.
func generate() (map[string][]byte, error) {
	files := make(map[string][]byte, 2*len(kinds()))
	for i, k := range kinds() {
		facts := k.facts(rand.New(rand.NewPCG(2026, uint64(i+1))))
		text, err := k.render(facts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		answers, err := facts.truth()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		files[k.name+"."+k.ext] = text
		files[k.name+".truth.json"] = answers
	}
	return files, nil
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// render fills the kind's template and lays the text out.
func (k kind) render(f facts) ([]byte, error) {
	language, _, _ := strings.Cut(k.template, "/")
	page := &page{layout: k.layout}
	tmpl := template.New("").Funcs(phrases(language)).Funcs(template.FuncMap{
		"section": page.section,
		"clause":  page.clause,
		"gap":     page.gap,
		"shared":  func(string) (string, error) { return "", nil },
	})
	tmpl, err := tmpl.ParseFS(texts, "texts/"+language+"/shared.tmpl", "texts/"+k.template+".tmpl")
	if err != nil {
		return nil, err
	}
	tmpl.Funcs(template.FuncMap{"shared": func(name string) (string, error) {
		var section bytes.Buffer
		err := tmpl.ExecuteTemplate(&section, fmt.Sprintf("%s/%d", name, max(1, k.variants[name])), f)
		return section.String(), err
	}})
	var text bytes.Buffer
	_, file, _ := strings.Cut(k.template, "/")
	if err := tmpl.ExecuteTemplate(&text, file+".tmpl", f); err != nil {
		return nil, err
	}
	tidy := blankLines.ReplaceAllString(strings.TrimSpace(text.String()), "\n\n") + "\n"
	tidy = strings.ReplaceAll(tidy, "г..", "г.") // a date's own full stop ends the sentence too
	return []byte(k.layout.wrap(tidy)), nil
}

// truth returns the true answers as an indented JSON document.
func (f facts) truth() ([]byte, error) {
	t := truth{
		Number: f.Number, Date: f.Date.Format(isoDate), PartyA: f.A.Name, PartyB: f.B.Name, Subject: f.Subject,
		Amount: decimal(f.Amount), Currency: f.Currency, Law: f.trueLaw(),
	}
	if f.PayDays != 0 {
		t.PaymentDays = &f.PayDays
	}
	if !f.Until.IsZero() {
		until := f.Until.Format(isoDate)
		t.ValidUntil = &until
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(t)
	return out.Bytes(), err
}

// decimal writes minor units as a JSON number of major ones, without trailing zeros.
func decimal(minor int64) json.Number {
	s := fmt.Sprintf("%d.%02d", minor/100, minor%100)
	return json.Number(strings.TrimSuffix(strings.TrimRight(s, "0"), "."))
}
