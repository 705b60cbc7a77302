package failpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/clock"
	"pawl.internal/services/internal/failpoint"
	"pawl.internal/services/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestTableIsWhatTheCodeHits compares the table with the calls of Hit in all services.
func TestTableIsWhatTheCodeHits(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, p := range failpoint.Table() {
		require.NotContains(t, listed, p.Name, "listed twice")
		require.Regexp(t, `^[a-z]+(\.[a-z]+)+$`, p.Name)
		require.NotEmpty(t, p.Durable, p.Name)
		require.NotEmpty(t, p.Missing, p.Name)
		listed = append(listed, p.Name)
	}
	require.ElementsMatch(t, listed, hits(t, "../.."))
}

// hits lists the names of all points in the Go files below a folder, each once.
func hits(t *testing.T, folder string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "failpoint/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && isHit(call) {
				literal, is := call.Args[0].(*ast.BasicLit)
				require.True(t, is, "%s: the name of a point must be a literal, so that it can be searched for", path)
				name, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				names = append(names, name)
			}
			return true
		})
		return nil
	}))
	slices.Sort(names)
	return slices.Compact(names)
}

func isHit(call *ast.CallExpr) bool {
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is || selector.Sel.Name != "Hit" {
		return false
	}
	pkg, is := selector.X.(*ast.Ident)
	return is && pkg.Name == "failpoint"
}

// TestNothingHappensInUsualBuilds is what Hit is in this very test binary.
func TestNothingHappensInUsualBuilds(t *testing.T) {
	t.Setenv("PAWL_FAILPOINTS", "runner.execute=kill")
	t.Setenv("PAWL_CLOCK_OFFSET", "1h")
	require.Equal(t, clock.System(), failpoint.Clock(clock.System()))
	require.False(t, failpoint.Enabled)
	require.Zero(t, testing.AllocsPerRun(10, func() { failpoint.Hit("runner.execute", t.Name()) }))
	require.False(t, failpoint.Armed("runner.execute"))
}

// hitter runs the program that comes to the points, in a build with failpoints.
func hitter(t *testing.T, rules, folder string, points ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, testkit.ProcessConfig{
		Path: testkit.Build(t, "pawl.internal/services/internal/failpoint/internal/hitter", testkit.FailpointsTag), Args: points,
		Env: []string{"PAWL_FAILPOINTS=" + rules, "PAWL_FAILPOINT_DIR=" + folder},
	})
}

func TestRules(t *testing.T) {
	t.Parallel()
	const a, b = "runner.execute", "runner.complete.begin"
	for name, test := range map[string]struct {
		rules, armed, output, end string
	}{
		"none":             {output: "passed a\npassed b\npassed a\n"},
		"kill":             {rules: "b=kill", output: "passed a\n", end: "signal: killed"},
		"second time":      {rules: "a#2=kill", output: "passed a\npassed b\n", end: "signal: killed"},
		"label":            {rules: "a(label)=kill", end: "signal: killed"},
		"service":          {rules: "b(hitter)=kill", output: "passed a\n", end: "signal: killed"},
		"another label":    {rules: "a(other)=kill", output: "passed a\npassed b\npassed a\n"},
		"memory":           {rules: "b=allocate(8)", output: "passed a\n", end: "signal: killed"},
		"sleep":            {rules: "a=sleep(1ms) once; b=sleep(1ms)", output: "passed a\npassed b\npassed a\n"},
		"armed":            {armed: "b=kill\n", output: "passed a\n", end: "signal: killed"},
		"unknown point":    {rules: "runner.nothing=kill", output: "there is no point runner.nothing", end: "exit status 1"},
		"unknown action":   {rules: "a=explode", output: "there is no action explode", end: "exit status 1"},
		"not a rule":       {rules: "a", output: "is not of the form", end: "exit status 1"},
		"needless":         {rules: "a=kill(2)", output: "kill takes no argument", end: "exit status 1"},
		"not a duration":   {rules: "a=sleep(long)", output: "invalid duration", end: "exit status 1"},
		"unknown in armed": {armed: "runner.nothing=kill", output: "there is no point runner.nothing", end: "exit status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := func(s string) string {
				s = regexp.MustCompile(`\ba\b`).ReplaceAllString(s, a)
				return regexp.MustCompile(`\bb\b`).ReplaceAllString(s, b)
			}
			folder := t.TempDir()
			if test.armed != "" {
				require.NoError(t, os.WriteFile(filepath.Join(folder, "armed"), []byte(long(test.armed)), 0o600))
			}
			process := hitter(t, long(test.rules), folder, a, b, a)
			err := process.Wait(time.Minute)
			if test.end == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.end)
			}
			require.Contains(t, process.Output(), long(test.output))
		})
	}
}

// TestOnce starts a process again, as a supervisor does: it does not die at the same point twice.
func TestOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := hitter(t, "runner.execute=kill once", folder, "runner.execute")
	require.EqualError(t, first.Wait(time.Minute), "signal: killed")
	mark, err := os.ReadFile(filepath.Join(folder, "runner.execute.hit"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(first.PID())+"\n", string(mark))
	require.NoError(t, hitter(t, "runner.execute=kill once", folder, "runner.execute").Wait(time.Minute))
}

// TestStop shows that a stopped process has not passed the point, and does when it goes on.
func TestStop(t *testing.T) {
	t.Parallel()
	process := hitter(t, "runner.complete.begin=stop", t.TempDir(), "runner.execute", "runner.complete.begin")
	process.AwaitStopped()
	require.Equal(t, "passed runner.execute\n", process.Output())
	process.Signal(syscall.SIGCONT)
	require.NoError(t, process.Wait(time.Minute))
	require.Equal(t, "passed runner.execute\npassed runner.complete.begin\n", process.Output())
}
