package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
)

// program has every kind of setting that the services have.
type program struct {
	Config   kong.ConfigFlag `help:"YAML file."`
	Database struct {
		URL      config.Secret
		MaxConns int `default:"10"`
	} `embed:"" prefix:"database-"`
	Lease time.Duration     `default:"30s"`
	Peers map[string]string `placeholder:"name=address"`
	Names []string
	Big   bool
	Serve struct{} `cmd:""`
	Other struct {
		Depth int
	} `cmd:""`
}

func parse(t *testing.T, yaml string, args ...string) (program, error) {
	t.Helper()
	var p program
	parser, err := kong.New(&p, config.Options()...)
	require.NoError(t, err)
	if yaml != "" {
		args = append(args, "--config", write(t, yaml))
	}
	_, err = parser.Parse(append(args, "serve"))
	return p, err
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestFlagsWinOverEnvironmentOverFileOverDefault(t *testing.T) {
	const yaml = "lease: 1m\ndatabase-max-conns: 3\nnames: [a, b]\n"
	p, err := parse(t, "")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, p.Lease)

	p, err = parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, time.Minute, p.Lease)
	require.Equal(t, 3, p.Database.MaxConns)
	require.Equal(t, []string{"a", "b"}, p.Names)

	t.Setenv("PAWL_LEASE", "2m")
	p, err = parse(t, yaml)
	require.NoError(t, err)
	require.Equal(t, 2*time.Minute, p.Lease)

	p, err = parse(t, yaml, "--lease=3m")
	require.NoError(t, err)
	require.Equal(t, 3*time.Minute, p.Lease)
}

func TestFileMayNestAndHoldMaps(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "lease: 1m\nother: {depth: 1}\n")
	require.ErrorContains(t, err, "line 2: there is no setting other-depth")
	p, err := parse(t, `
database:
  url: postgres://x
  max: {conns: 4}
peers: {orchestrator: "h:1", llm-gateway: "h:2"}
big: true
depth: 1
`)
	require.NoError(t, err)
	require.Equal(t, "postgres://x", p.Database.URL.Reveal())
	require.Equal(t, 4, p.Database.MaxConns)
	require.Equal(t, map[string]string{"orchestrator": "h:1", "llm-gateway": "h:2"}, p.Peers)
	require.True(t, p.Big)
}

func TestFileWithMistakesIsRefusedWithEveryLine(t *testing.T) {
	t.Parallel()
	_, err := parse(t, "lease: 1m\nleese: 1m\ndatabase:\n  ulr: x\ndatabase-url: a\n"+"lease: 2m\n")
	require.ErrorContains(t, err, "line 2: there is no setting leese")
	require.ErrorContains(t, err, "line 4: there is no setting database-ulr")
	require.ErrorContains(t, err, "line 6: lease is set in line 1 too")
	for yaml, want := range map[string]string{
		"- a\n":           "line 1: write keys and values",
		"lease: [\n":      "configuration file",
		"lease: soon\n":   "soon",
		"big: {a: b}\n":   "big",
		"lease:\n":        "line 1: lease has no value",
		"names: !!x {}\n": "names",
	} {
		_, err := parse(t, yaml)
		require.ErrorContains(t, err, want, yaml)
	}
	_, err = parse(t, "# nothing\n")
	require.NoError(t, err)
}

func TestValuesCanComeFromFiles(t *testing.T) {
	t.Setenv("PAWL_DATABASE_URL_FILE", write(t, "from a file\n"))
	p, err := parse(t, "database: {url: from yaml}\n")
	require.NoError(t, err)
	require.Equal(t, "from a file", p.Database.URL.Reveal())

	t.Setenv("PAWL_DATABASE_URL", "file:"+write(t, "from another\n"))
	p, err = parse(t, "database: {url: from yaml}\n")
	require.NoError(t, err)
	require.Equal(t, "from another", p.Database.URL.Reveal())

	_, err = parse(t, "", "--database-url=file:/does/not/exist")
	require.ErrorContains(t, err, "read secret")
	t.Setenv("PAWL_LEASE_FILE", "/does/not/exist")
	_, err = parse(t, "")
	require.ErrorContains(t, err, "read value")
}

func TestSecretsDoNotShow(t *testing.T) {
	t.Parallel()
	type holder struct {
		Key config.Secret `json:"key"`
	}
	h := holder{Key: config.NewSecret("hunter2")}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "key", h.Key, "holder", h)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "key", h.Key, "holder", h)
	encoded, err := json.Marshal(h)
	require.NoError(t, err)
	for _, shown := range []string{
		log.String(), string(encoded), fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %s %q %x %d", h, h, h, h.Key, h.Key, h.Key, h.Key),
		fmt.Errorf("wrap: %v", h).Error(), h.Key.String(),
	} {
		require.NotContains(t, shown, "hunter2")
		require.NotContains(t, shown, fmt.Sprintf("%x", "hunter2"))
		require.Contains(t, shown, "[secret]")
	}
	require.Equal(t, "hunter2", h.Key.Reveal())
	require.Empty(t, config.Secret{}.String())
	require.True(t, config.Secret{}.IsZero())
	require.False(t, h.Key.IsZero())
}
