// Contracts writes the ten example contracts and the true answers beside them.
//
// Five contracts are Russian and five English; they differ in kind, wording and layout, and each carries numbers and dates
// that are not the ones asked for. Everything is made up and drawn from fixed seeds, so every run writes the same bytes.
//
// Usage, from the tools module: go run ./contracts -out ../examples/contracts
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "../examples/contracts", "folder to write into")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "contracts:", err)
		os.Exit(1)
	}
}

// write generates all files into folder, which it makes if it is missing.
func write(folder string) error {
	files, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
