// Package mutation breaks one guard of Pawl after the other on purpose and has a test look: a guard whose breaking nobody
// notices is not proved by anything. The sources stay as they are; a broken file is laid over them for one run of the go
// command.
package mutation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Mutation is one broken guard, and the test that must notice.
type Mutation struct {
	// Name is short and stable; Guard says what the guard is for.
	Name, Guard string
	// File is where the guard stands, below the repository's root. New takes the place of Old, which stands there once.
	File, Old, New string
	// Caught is the go command that fails because of it, without "go".
	Caught []string
}

// patience bounds one run of a test; with a broken guard a test may wait for what never comes.
const patience = 5 * time.Minute

// errUnbroken is the result of a mutation that its test did not notice, errHung of one of which it did not say what is wrong.
var (
	errUnbroken = errors.New("not noticed")
	errHung     = errors.New("the test hung instead of failing")
)

// Apply returns the file with the guard broken.
func (m Mutation) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	if n := bytes.Count(text, []byte(m.Old)); n != 1 {
		return nil, fmt.Errorf("%s: the guard stands %d times in %s, and must stand there once: put the list right", m.Name, n, m.File)
	}
	return bytes.Replace(text, []byte(m.Old), []byte(m.New), 1), nil
}

// Try breaks the guard and runs the test that must notice, and writes what that says to output. It fails when
// the test passes or hangs, and when the broken program does not even build: that would prove nothing.
func (m Mutation) Try(ctx context.Context, root string, output io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	folder, err := os.MkdirTemp("", "pawl-mutation-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a leftover in the temporary folder harms nobody
	overlay, err := m.overlay(root, folder)
	if err != nil {
		return err
	}
	pkg := "./" + filepath.ToSlash(filepath.Dir(m.File))
	if err := run(ctx, root, overlay, output, "build", pkg); err != nil {
		return fmt.Errorf("%s: the broken program does not build: %w", m.Name, err)
	}
	var said bytes.Buffer
	err = run(ctx, root, overlay, io.MultiWriter(output, &said), m.Caught...)
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case bytes.Contains(said.Bytes(), []byte("panic: test timed out")):
		err = errHung
	case failed:
		return nil
	case err == nil:
		err = errUnbroken
	}
	return fmt.Errorf("%s: go %s: %w", m.Name, strings.Join(m.Caught, " "), err)
}

// overlay writes the broken file and the list that lays it over the sources.
func (m Mutation) overlay(root, folder string) (string, error) {
	broken, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	file, list := filepath.Join(folder, "broken.go"), filepath.Join(folder, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.File): file}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(file, broken, 0o600), os.WriteFile(list, text, 0o600))
}

// run runs a go command with the overlay, which the go commands that tests run themselves see too.
func run(ctx context.Context, root, overlay string, output io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, output, output
	cmd.Env = append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	return cmd.Run()
}
