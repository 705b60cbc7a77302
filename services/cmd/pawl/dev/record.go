package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// recordName is the file in the data folder that says how a running system is reached.
const recordName = "dev.json"

// Record says how the system of a data folder is reached. It is written when the system answers, again whenever a process
// is started anew, and removed when the system stops.
type Record struct {
	REST   string `json:"rest"`
	GRPC   string `json:"grpc"`
	Admin  string `json:"admin"`
	APIKey string `json:"api_key"`
	// OpenAI is the base URL of the OpenAI-compatible endpoint.
	OpenAI string `json:"openai"`
	// DatabaseURL and RedisURL reach the stores; RedisPrefix begins every key of the system.
	DatabaseURL string `json:"database_url"`
	RedisURL    string `json:"redis_url"`
	RedisPrefix string `json:"redis_prefix"`
	DataDir     string `json:"data_dir"`
	// PID is the process that started the system and stops it.
	PID int `json:"pid"`
	// Services has an entry a service when each is a process of its own.
	Services map[string]ServiceRecord `json:"services,omitempty"`
}

// ServiceRecord is a service that is a process of its own.
type ServiceRecord struct {
	PID int `json:"pid"`
	// Admin is where it tells its health and metrics.
	Admin string `json:"admin"`
	// Restarts counts how often it was started anew.
	Restarts int `json:"restarts"`
}

// ReadRecord returns the record of the system that runs on a data folder; fs.ErrNotExist when none does, or none answers
// yet. It is for other processes than that system's.
func ReadRecord(dataDir string) (*Record, error) {
	pid, err := holder(dataDir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dataDir, recordName))
	if err != nil {
		return nil, err
	}
	record := &Record{}
	if err := json.Unmarshal(text, record); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dataDir, recordName), err)
	}
	if record.PID != pid { // left behind by a system that was killed
		return nil, fs.ErrNotExist
	}
	return record, nil
}

// recorder keeps the record of a running system up to date.
type recorder struct {
	mu        sync.Mutex
	record    Record // guarded by mu
	published bool   // guarded by mu; the file exists from then on
}

// update changes the record, and the file if there is one.
func (r *recorder) update(change func(*Record)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.record)
	if !r.published {
		return nil
	}
	return r.record.write()
}

func (r *recorder) get() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record
}

// publish writes the file: the system answers.
func (r *recorder) publish() (Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = true
	return r.record, r.record.write()
}

// write replaces the file in one step, so that no reader sees half of it.
func (r *Record) write() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(r.DataDir, recordName)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func removeRecord(dataDir string) error {
	err := os.Remove(filepath.Join(dataDir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Describe tells a person how the system is reached, and what to try next.
func (r Record) Describe(w io.Writer) {
	fmt.Fprintf(w, `
Pawl is running.

  REST     %s        gRPC  %s
  OpenAI   %s        for OpenAI's clients: this as base URL, and the API key
  health   %s/healthz    metrics  %s/metrics
  API key  %s
  data     %s
  tenants  bin/pawl tenants bootstrap --data-dir %s    makes the operators' key, once

Try it in another terminal:

  curl -s -X POST %s/v1/jobs -H 'Authorization: Bearer %s' -H 'Idempotency-Key: first' \
    -H 'Content-Type: application/json' -d '{"model":"default","messages":[{"role":"user","content":"Hello"}]}'

  bin/pawl documents extract examples/contracts/01-*.txt --data-dir %s

Ctrl-C stops it.
`, r.REST, r.GRPC, r.OpenAI, r.Admin, r.Admin, r.APIKey, r.DataDir, r.DataDir, r.REST, r.APIKey, r.DataDir)
}
