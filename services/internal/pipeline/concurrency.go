package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"pawl.internal/services/internal/expr"
)

// maxKeyBytes bounds the values of concurrency keys: longer ones are replaced by their SHA-256.
const maxKeyBytes = 255

// concurrency compiles how much of the pipeline may happen at once.
func (b *build) concurrency(where path) {
	spec := b.doc.spec.GetConcurrency()
	if spec == nil {
		return
	}
	b.compiled.MaxSteps = int(spec.GetMaxSteps())
	key := where.then("key")
	if !b.has(key) {
		if b.has(where.then("max_runs")) {
			b.fail(where.then("max_runs"), "bounds the runs of one key: give a key too, such as ${input.customer}")
		}
		return
	}
	b.compiled.MaxRuns = int(orDefault(spec.MaxRuns, 1)) //nolint:protogetter // absent is not 0
	b.compiled.key = b.template(key, expr.Names{
		Input: b.input, Missing: func(string) string { return "the key is made of the input, before any step has run" },
	})
	if b.compiled.key == nil {
		return
	}
	if refs := b.compiled.key.Refs(); refs.Run {
		b.fail(key, "must be made of the input alone: run is not known yet when the key is")
	} else if !refs.Input {
		b.fail(key, "must refer to the input, such as ${input.customer}: the key would be the same for all runs")
	}
}

// ConcurrencyKey evaluates the key under which a run of this input counts against MaxRuns; empty if it counts against
// nothing. The error says why the key has no value for the input.
func (c *Compiled) ConcurrencyKey(input json.RawMessage) (string, error) {
	if c.key == nil {
		return "", nil
	}
	scope := expr.NewScope(expr.Data{Input: input})
	value, err := c.key.Value(scope)
	if err != nil {
		return "", fmt.Errorf("concurrency.key: %w", err)
	}
	if value == nil {
		return "", nil
	}
	key, err := c.key.Text(scope)
	if err != nil {
		return "", fmt.Errorf("concurrency.key: %w", err)
	}
	if len(key) > maxKeyBytes {
		sum := sha256.Sum256([]byte(key))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	return key, nil
}
