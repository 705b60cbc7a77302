package pipeline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/golden"
	"pawl.internal/services/internal/pipeline"
)

func newCompiler(t testing.TB) *pipeline.Compiler {
	t.Helper()
	compiler, err := pipeline.NewCompiler()
	require.NoError(t, err)
	return compiler
}

// Each file in testdata/bad has the problems in the golden file beside it.
func TestProblems(t *testing.T) {
	compiler := newCompiler(t)
	files, err := filepath.Glob("testdata/bad/*.[yj]*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = compiler.Compile(filepath.Base(file), source)
			require.ErrorAs(t, err, new(pipeline.Problems))
			golden.Assert(t, strings.TrimSuffix(file, filepath.Ext(file))+".golden", []byte(err.Error()+"\n"))
		})
	}
}
