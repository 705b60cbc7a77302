package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/dev"
	"pawl.internal/services/testkit"
)

// promptly is how long Ctrl-C may take to end a system on one machine.
const promptly = 15 * time.Second

// dataFolder is a folder that the database's user may enter, wherever temporary folders are kept.
func dataFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for at := folder; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o711))
	}
	return filepath.Join(folder, "data")
}

// TestDemo runs the README's first command: to its end, and without redis-server until Ctrl-C.
func TestDemo(t *testing.T) {
	t.Run("to its end", func(t *testing.T) {
		demo := demonstrate(t, nil, "--exit")
		require.NoError(t, demo.Wait(2*time.Minute))
		requireAllRight(t, demo)
		requireGone(t, demo.folder, demo.record)
	})
	t.Run("until Ctrl-C, without redis-server", func(t *testing.T) {
		demo := demonstrate(t, []string{"PATH=" + t.TempDir()})
		demo.Await(func() error {
			if !strings.Contains(demo.Output(), "Ctrl-C stops it") {
				return errors.New("it has not told how to use it")
			}
			return nil
		})
		requireAllRight(t, demo)
		require.Contains(t, demo.Output(), "redis-server is not installed")
		require.Contains(t, pawl(t, demo.folder, "", 0, "runs", "list").Out, "document_extract:v2")
		demo.interrupt(t)
	})
}

func demonstrate(t *testing.T, env []string, args ...string) developed {
	t.Helper()
	folder := dataFolder(t)
	demo := harness.Launch(t, env, append([]string{"demo", "--data-dir", folder}, args...)...)
	record := harness.AwaitRecord(t, demo, folder)
	require.GreaterOrEqual(t, len(harness.At(t, folder)), 3, "the demonstration, PostgreSQL and its children work there")
	return developed{Process: demo, folder: folder, record: *record}
}

// requireAllRight reads the demonstration's last line.
func requireAllRight(t *testing.T, demo developed) {
	t.Helper()
	said := regexp.MustCompile(`(\d+) of (\d+) documents done; (\d+) of (\d+) fields as in the true answers; \$([0-9.]+) in all`).
		FindStringSubmatch(demo.Output())
	require.NotNil(t, said, "it does not sum up")
	require.Equal(t, []string{"10", "10", "100", "100"}, said[1:5])
	cost, err := strconv.ParseFloat(said[5], 64)
	require.NoError(t, err)
	require.Positive(t, cost)
}

// requireGone fails when anything of a system that has ended is left.
func requireGone(t *testing.T, folder string, record dev.Record) {
	t.Helper()
	require.Empty(t, harness.At(t, folder), "processes that were left behind")
	require.False(t, harness.Running(record.PID))
	_, err := dev.ReadRecord(folder)
	require.ErrorIs(t, err, os.ErrNotExist, "the record of a system that has ended")
}

// developed is a system as a developer has it: in one process, with stores of its own.
type developed struct {
	*testkit.Process
	folder string
	record dev.Record
}

func develop(t *testing.T, folder string) developed {
	t.Helper()
	base, err := dev.FreePortBase(t.Context())
	require.NoError(t, err)
	process := harness.Launch(t, nil, "dev", "--data-dir", folder, "--port-base", strconv.Itoa(base))
	return developed{Process: process, folder: folder, record: *harness.AwaitRecord(t, process, folder)}
}

// interrupt presses Ctrl-C.
func (d developed) interrupt(t *testing.T) {
	t.Helper()
	d.Signal(syscall.SIGINT)
	require.NoError(t, d.Wait(promptly))
	requireGone(t, d.folder, d.record)
}

// TestDev stops a system as a developer does, in the middle of a call, and finds everything again at the next start.
func TestDev(t *testing.T) {
	folder := dataFolder(t)
	first := develop(t, folder)
	require.Contains(t, first.Output(), first.record.REST)
	require.Contains(t, first.Output(), first.record.APIKey)
	done := commandLine(t, folder)
	slow := submitTo(t, folder, "sim-small?latency=3s")
	harness.Attach(t, first.record).AwaitRun(slow, func(run harness.RunState) bool { return run.Status == "running" })
	first.interrupt(t)

	second := develop(t, folder)
	require.Equal(t, first.record.APIKey, second.record.APIKey)
	require.JSONEq(t, done.text, pawl(t, folder, "", 0, "runs", "get", done.RunID, "--json").Out)
	require.NotEmpty(t, pawl(t, folder, "", 0, "runs", "watch", slow).Out)
	calls := harness.Attach(t, second.record).Calls(slow)
	require.Len(t, calls, 1)
	require.Len(t, calls[0].Tries, 1, "the call that was under way was awaited: %+v", calls)
	second.interrupt(t)
}

// submitTo starts a run of one question to a model.
func submitTo(t *testing.T, folder, model string) (runID string) {
	t.Helper()
	input := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "Say something."}]}`, model)
	return strings.TrimSpace(pawl(t, folder, input, 0, "runs", "submit", "llm_completion", "-").Out)
}

// TestDevGivesUpOnSecondInterrupt: a provider that hangs holds up the end only until one insists. Then nothing is left behind
// either, and what was stored is there at the next start.
func TestDevGivesUpOnSecondInterrupt(t *testing.T) {
	folder := dataFolder(t)
	system := develop(t, folder)
	run := submitTo(t, folder, "sim-small?hang")
	harness.Attach(t, system.record).AwaitRun(run, func(run harness.RunState) bool { return run.Status == "running" })
	system.Signal(syscall.SIGINT)
	system.Await(func() error {
		if !strings.Contains(system.Output(), "Ctrl-C again") {
			return errors.New("it has not said how to insist")
		}
		return nil
	})
	system.Signal(syscall.SIGINT)
	require.Error(t, system.Wait(promptly), "killed")
	harness.Eventually(t, func() error {
		if left := harness.At(t, folder); len(left) > 0 {
			return fmt.Errorf("processes are left behind: %v", left)
		}
		return nil
	})

	again := develop(t, folder)
	require.Contains(t, pawl(t, folder, "", 0, "runs", "cancel", run, "--reason", "it hangs").Out, "cancelled")
	require.Equal(t, "cancelled", harness.Attach(t, again.record).AwaitEnd(run).Status)
	again.interrupt(t)
}

// ended is a run that has ended, and the text that showed it.
type ended struct {
	RunID string `json:"run_id"`
	text  string
}

// pawl runs a client's command against the system of a data folder and checks its exit code.
func pawl(t *testing.T, folder, input string, code int, args ...string) harness.Result {
	t.Helper()
	result := harness.Run(t, input, append(args, "--data-dir", folder)...)
	require.Equal(t, code, result.Code, "pawl %s\n%s\n%s", strings.Join(args, " "), result.Out, result.Err)
	return result
}

// commandLine uses the system by the client's commands alone, and returns a run that is done.
func commandLine(t *testing.T, folder string) ended {
	t.Helper()
	pipelineCommands(t, folder)
	documentCommands(t, folder)
	return runCommands(t, folder)
}

const chain = "examples/pipelines/transform_chain.yaml"

func pipelineCommands(t *testing.T, folder string) {
	t.Helper()
	require.Empty(t, pawl(t, folder, "", 0, "pipelines", "validate", chain).Err)
	require.Equal(t, "transform_chain:v1 stored\n", pawl(t, folder, "", 0, "pipelines", "apply", chain).Out)
	require.Equal(t, "transform_chain:v1 was stored before\n", pawl(t, folder, "", 0, "pipelines", "apply", chain).Out)

	bad := harness.WriteFile(t, "bad.yaml", steps+"  - name: a\n    transform: ${steps.nothing.output}\n")
	said := pawl(t, folder, "", 1, "pipelines", "validate", bad).Err
	require.Regexp(t, `(?m)^`+regexp.QuoteMeta(bad)+`:5:\d+: steps\[0\]\.transform: `, said)
	require.Contains(t, pawl(t, folder, "", 1, "pipelines", "apply", bad).Err, "steps[0].transform")

	other, err := os.ReadFile(filepath.Join(harness.Root(), chain))
	require.NoError(t, err)
	changed := strings.Replace(string(other), "input.n + 1", "input.n + 2", 1)
	pawl(t, folder, changed, 4, "pipelines", "apply", "-")

	table := pawl(t, folder, "", 0, "pipelines", "list").Out
	require.Regexp(t, `(?m)^PIPELINE +STEPS +DIGEST +STORED$`, table)
	require.Regexp(t, `(?m)^transform_chain:v1 +first, second, third +[0-9a-f]{12} +\d{4}-`, table)
	require.Regexp(t, `(?m)^document_extract:v2 +sections, fields, summary `, table)
	var list struct {
		Pipelines []struct{ Name, Version string }
	}
	require.NoError(t, json.Unmarshal([]byte(pawl(t, folder, "", 0, "pipelines", "list", "--json").Out), &list))
	require.GreaterOrEqual(t, len(list.Pipelines), 3)
}

func documentCommands(t *testing.T, folder string) {
	t.Helper()
	files := []string{"examples/contracts/06-en-supply.txt", "examples/contracts/08-en-licence.md"}
	stored := pawl(t, folder, "", 0, append([]string{"documents", "put"}, files...)...).Out
	require.Regexp(t, `^[0-9a-f-]{36}  .*06-en-supply\.txt\n[0-9a-f-]{36}  .*08-en-licence\.md\n$`, stored)
	extracted := pawl(t, folder, "", 0, append([]string{"documents", "extract"}, files...)...)
	require.Equal(t, 2, strings.Count(extracted.Out, "\n"), "a result a line: %s", extracted.Out)
	require.Contains(t, extracted.Out, "SA-2026-548")
	require.Contains(t, extracted.Err, "3/3 steps", "progress goes to standard error")

	blank := pawl(t, folder, " \n", 7, "documents", "extract", "-")
	require.Contains(t, blank.Err, "invalid_input")
	pawl(t, folder, "", 1, "documents", "put", "/nowhere")
}

func runCommands(t *testing.T, folder string) ended {
	t.Helper()
	submitted := pawl(t, folder, `{"n": 5}`, 0, "runs", "submit", "transform_chain", "-", "--key", "cli")
	id := strings.TrimSpace(submitted.Out)
	require.Regexp(t, `^[0-9a-f-]{36}$`, id)
	require.Contains(t, submitted.Err, "pawl runs watch "+id)
	again := pawl(t, folder, `{"n": 5}`, 0, "runs", "submit", "transform_chain", "-", "--key", "cli")
	require.Equal(t, submitted.Out, again.Out)
	require.Contains(t, again.Err, "the key had been used before")
	pawl(t, folder, `{"n": 6}`, 4, "runs", "submit", "transform_chain", "-", "--key", "cli")

	require.JSONEq(t, `{"n": 8}`, pawl(t, folder, "", 0, "runs", "watch", id).Out)
	require.JSONEq(t, `{"n": 10}`, pawl(t, folder, `{"n": 7}`, 0, "runs", "submit", "transform_chain", "-", "--wait").Out)
	require.Regexp(t, `(?m)^status +done +3/3 steps`, pawl(t, folder, "", 0, "runs", "get", id).Out)
	require.Regexp(t, fmt.Sprintf(`(?m)^%s +transform_chain:v1 +done `, id), pawl(t, folder, "", 0, "runs", "list").Out)

	pawl(t, folder, "", 3, "runs", "get", "01890000-0000-7000-8000-000000000001")
	require.Contains(t, pawl(t, folder, `{"n": "x"}`, 1, "runs", "submit", "transform_chain", "-").Err, "input.n")
	require.Contains(t, pawl(t, folder, "", 2, "runs", "fetch").Err, "unexpected argument fetch")
	pawl(t, folder, "", 5, "runs", "get", id, "--api-key", "pawl_wrong_key")

	shown := ended{text: pawl(t, folder, "", 0, "runs", "watch", id, "--json").Out}
	require.NoError(t, json.Unmarshal([]byte(shown.text), &shown))
	require.Equal(t, id, shown.RunID)
	return shown
}

// TestDataFolderIsTakenOnce refuses a second system on a data folder, and says what to do.
func TestDataFolderIsTakenOnce(t *testing.T) {
	s := harness.Start(t, harness.Config{})
	second := harness.Run(t, "", "dev", "--data-dir", s.DataDir, "--port-base", "20000")
	require.Equal(t, 1, second.Code)
	require.Contains(t, second.Err, "already runs on")
	require.Contains(t, second.Err, "--data-dir")
}
