package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/cmd/pawl/serve"
	"pawl.internal/services/internal/boot"
	"pawl.internal/services/internal/golden"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func parser(t *testing.T, c *cli) *kong.Kong {
	t.Helper()
	p, err := newParser(c)
	require.NoError(t, err)
	return p
}

// Every setting is in the reference, as its flag says it.
func TestConfigReference(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString(`# Configuration

<!-- Made from the flags of services/cmd/pawl: go test ./services/cmd/pawl -update -->

Flags, environment and a YAML file (` + "`--config FILE`" + `) say the same under the same names. Flags win over the environment, the environment over the file.

- A flag ` + "`--database-url`" + ` is the variable ` + "`PAWL_DATABASE_URL`" + `, or ` + "`PAWL_DATABASE_URL_FILE`" + ` with the path of a file that holds the value.
- In the YAML file it is the key ` + "`database-url`" + `, or ` + "`url`" + ` below ` + "`database`" + `. A key that no flag has is an error.
- A secret may be ` + "`file:PATH`" + ` wherever it is given.

Commands that use a running system (runs, documents, pipelines) are told by flags and variables too; their ` + "`--help`" + ` lists them.
`)
	commands := map[string]*kong.Node{}
	for _, command := range parser(t, &cli{}).Model.Children {
		commands[command.Name] = command
	}
	listed := map[string]bool{"help": true, "config": true}
	for _, name := range []string{"serve", "dev", "demo", "migrate", "doctor", "simulate-provider"} {
		describe(&page, commands[name], listed)
	}
	golden.Assert(t, "../../../docs/reference/config.md", page.Bytes())
}

// describe lists the flags of a command by their groups, but for those that are listed already.
func describe(page *bytes.Buffer, command *kong.Node, listed map[string]bool) {
	fmt.Fprintf(page, "\n## pawl %s\n\n%s\n", command.Name, command.Help)
	flags := slices.DeleteFunc(slices.Clone(command.Flags), func(f *kong.Flag) bool { return listed[f.Name] && !f.Required })
	if len(flags) < len(command.Flags)-len([]string{"help", "config"}) {
		page.WriteString("It takes what is listed above too.\n")
	}
	group := func(f *kong.Flag) string {
		if f.Group == nil {
			return ""
		}
		return f.Group.Key
	}
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return cmp.Compare(group(a), group(b)) })
	for i, f := range flags {
		if i == 0 || group(f) != group(flags[i-1]) {
			if group(f) != "" {
				fmt.Fprintf(page, "\n### %s\n", group(f))
			}
			page.WriteString("\n| flag | variable | default | what it says |\n| --- | --- | --- | --- |\n")
		}
		fmt.Fprintf(page, "| `--%s` | %s | %s | %s |\n", f.Name, code(f.Envs...), code(f.Default), strings.ReplaceAll(f.Help, "|", "\\|"))
		listed[f.Name] = true
	}
}

// code writes words as Markdown writes code.
func code(words ...string) string {
	var written []string
	for _, word := range words {
		if word != "" {
			written = append(written, "`"+word+"`")
		}
	}
	return strings.Join(written, ", ")
}

// Every metric of every service is in the reference: they are read from the registry of a process that serves them all.
func TestMetricsReference(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	page.WriteString(`# Metrics

<!-- Made from the registry of a process that serves all services: go test ./services/cmd/pawl -update -->

Every process has them at ` + "`/metrics`" + ` of its admin address, beside those of the Go runtime. Counters end in ` + "`_total`" + `, times are histograms in ` + "`_seconds`" + `. Labels are from closed
sets; ids are never labels.

| metric | labels | what it says |
| --- | --- | --- |
`)
	metrics := metricsOf(registryOfAll(t))
	for _, service := range []string{"rpc", "intake", "orchestrator", "step_runner", "llm_gateway"} {
		ofService := func(m metric) bool { return strings.HasPrefix(m.name, "pawl_"+service+"_") }
		require.True(t, slices.ContainsFunc(metrics, ofService), service)
	}
	for _, m := range metrics {
		require.NotEmpty(t, m.help, m.name)
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", m.name, code(m.labels...), m.help)
	}
	golden.Assert(t, "../../../docs/reference/metrics.md", page.Bytes())
}

// The files and tests that ARCHITECTURE.md names exist.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	files, tests := map[string]bool{}, map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, module := range []string{"services", "e2e", "sdk", "tools"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			files[filepath.Base(path)] = true
			content, err := os.ReadFile(path)
			for _, found := range function.FindAllSubmatch(content, -1) {
				tests[string(found[1])] = true
			}
			return err
		}))
	}
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	require.NoError(t, err)
	named := func(pattern string) []string { return regexp.MustCompile(pattern).FindAllString(string(text), -1) }
	for _, file := range named(`\b[a-z_]+\.go\b`) {
		require.Contains(t, files, file)
	}
	for _, test := range named(`\bTest\w+`) {
		require.Contains(t, tests, test)
	}
}

type metric struct {
	name, help string
	labels     []string
}

// metricsOf lists the metrics of ours, by name; also those that have no value yet.
func metricsOf(registry *prometheus.Registry) []metric {
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		registry.Describe(described)
	}()
	form := regexp.MustCompile(`fqName: "(pawl_\w+)", help: "([^"]*)", unit: "", constLabels: {}, variableLabels: {(.*)}}`)
	var metrics []metric
	for d := range described {
		if found := form.FindStringSubmatch(d.String()); found != nil {
			metrics = append(metrics, metric{name: found[1], help: found[2], labels: strings.Split(found[3], ",")})
		}
	}
	slices.SortFunc(metrics, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return metrics
}

// registryOfAll is the registry of a process that has served all services and is ready.
func registryOfAll(t *testing.T) *prometheus.Registry {
	t.Helper()
	database, keys := testkit.Postgres(t, serve.Schemas()...), testkit.Redis(t)
	var c cli
	const anywhere = "127.0.0.1:0"
	_, err := parser(t, &c).Parse([]string{
		"serve", "all", "--database-url", database.URL, "--redis-url", keys.URL, "--redis-prefix", keys.Prefix,
		"--grpc-listen", anywhere, "--orchestrator-listen", anywhere, "--llm-gateway-listen", anywhere,
		"--step-runner-listen", anywhere, "--intake-rest", anywhere, "--admin-listen", "", "--llm-gateway-endpoint", anywhere,
	})
	require.NoError(t, err)
	p := serve.NewProcess(c.Serve.Config, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve.Run(ctx, p, c.Serve.Config, serve.Names()) }()
	awaitReady(t, p)
	cancel()
	require.NoError(t, <-ended)
	return p.Metrics
}

func awaitReady(t *testing.T, p *boot.Process) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		answer := httptest.NewRecorder()
		p.AdminHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody))
		if answer.Code != http.StatusOK {
			return fmt.Errorf("not ready: %s", answer.Body)
		}
		return nil
	})
}
