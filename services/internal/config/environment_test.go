package config_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/config"
)

// TestEnvironmentSaysTheSame: a program that is told by the variables knows what the first was told by flags and file.
func TestEnvironmentSaysTheSame(t *testing.T) {
	var told program
	parser, err := kong.New(&told, config.Options()...)
	require.NoError(t, err)
	command, err := parser.Parse([]string{
		"--lease", "90s", "--names", "a,b", "--names", "c", "--peers", "x=1;y=2", "--big", "--database-url", "postgres://secret",
		"--config", write(t, "database-max-conns: 3\nlease: 1h\n"), "serve",
	})
	require.NoError(t, err)
	variables := config.Environment(command)
	require.Contains(t, variables, "PAWL_DATABASE_URL=postgres://secret")
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	same, err := parse(t, "")
	require.NoError(t, err)
	require.Equal(t, told, same)
}
