package chaos

import (
	_ "embed" // for the earlier version
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
	"pawl.internal/services/cmd/pawl/serve"
)

// previous is the commit of the version before this one: what a deployment of this version replaces.
//
//go:embed testdata/previous
var previous string

const (
	// mixedTime is how long both versions run beside each other.
	mixedTime = time.Minute
	// mixedPace spreads the runs over the deployment, the mixture, and the way back.
	mixedPace = 1500 * time.Millisecond
)

// TestI04_VersionsRunBesideEachOther deploys this version over the one before it, under load: half of every service first, so
// that both run beside each other for a while, then all, all the way back, and forth again. Nothing is lost, paid twice, or tried again.
func TestI04_VersionsRunBesideEachOther(t *testing.T) {
	full(t)
	v := newVersions(t)
	f := start(t, harness.FleetConfig{Wrap: v.wrap})
	endure(t, f, fault{name: "this version deployed over the one before, and taken back", pace: mixedPace, strike: func(t *testing.T, f *harness.Fleet) {
		first, second := halves(f)
		v.deploy(t, v.next, first)
		requireSteady(t, f, mixedTime)
		v.deploy(t, v.next, second)
		v.deploy(t, v.earlier, second)
		v.deploy(t, v.earlier, first)
		v.deploy(t, v.next, first) // what the earlier version has left is taken over, before the doctor of this one looks
		v.deploy(t, v.next, second)
	}})
	require.Zero(t, f.API.Count(`SELECT count(*) FROM core.run_event WHERE kind IN ('lease_expired', 'failed_transient', 'hard_timeout', 'ambiguous')`),
		"a deployment gave cause to try something again")
}

// halves are the first replicas of the services, and all others. A service with one replica is in the first half.
func halves(f *harness.Fleet) (first, second []*harness.Replica) {
	for _, r := range f.All() {
		if strings.HasSuffix(r.Name, "-1") {
			first = append(first, r)
		} else {
			second = append(second, r)
		}
	}
	return first, second
}

// requireSteady watches the fleet for a while: no process ends by itself.
func requireSteady(t *testing.T, f *harness.Fleet, while time.Duration) {
	t.Helper()
	starts := func() (n int) {
		for _, r := range f.All() {
			n += r.Starts()
		}
		return n
	}
	before, end := starts(), time.NewTimer(while)
	defer end.Stop()
	select {
	case <-end.C:
	case <-t.Context().Done():
	}
	require.Equal(t, before, starts(), "processes have ended by themselves")
}

// versions are the programs of two versions. Each replica runs the one to which the link of its name leads when it starts.
type versions struct {
	folder, earlier, next string
}

// newVersions builds the earlier version, which replicas run at first.
func newVersions(t *testing.T) *versions {
	t.Helper()
	v := &versions{folder: t.TempDir(), next: harness.Binary(t)}
	v.earlier = filepath.Join(v.folder, "pawl")
	source := filepath.Join(v.folder, "source")
	require.NoError(t, os.Mkdir(source, 0o755))
	script := `git -C "$1" archive "$2" | tar -x -C "$3" && cd "$3" && exec go build -o "$4" ./services/cmd/pawl`
	said, err := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", script, "build",
		harness.Root(), strings.TrimSpace(previous), source, v.earlier).CombinedOutput()
	require.NoError(t, err, "build the earlier version: %s", said)
	return v
}

// wrap has a process run what its link leads to, in place of the program that it was given, and without the flags that only
// this version knows if that is the earlier one. Each process gets one address of a list. Step-runners get an orchestrator of the other half, so that while versions
// differ each talks to the other; what the halves share are the stores.
func (v *versions) wrap(process string) []string {
	link := filepath.Join(v.folder, process)
	if _, err := os.Lstat(link); err != nil {
		_ = os.Symlink(v.earlier, link) // without it the process cannot start, and says so
	}
	orchestrator, gateway := "${to%%,*}", "${to%%,*}"
	if !strings.HasSuffix(process, "-1") {
		orchestrator, gateway = "${to##*,}", "${to##*,}"
	}
	if strings.HasPrefix(process, serve.StepRunner) {
		orchestrator = map[string]string{"${to%%,*}": "${to##*,}", "${to##*,}": "${to%%,*}"}[orchestrator]
	}
	script := `link=$1; shift 2
[ "$(readlink "$link")" = "` + v.earlier + `" ] && earlier=1
for arg; do
  shift; to=${arg#ipv4:///}
  case $earlier$last in 1--llm-gateway-endpoint|1--intake-address) last=$arg; continue ;; esac
  case $earlier$arg in 1--llm-gateway-endpoint|1--intake-address) last=$arg; continue ;; esac
  case $last in
    --orchestrator-address) set -- "$@" "dns:///` + orchestrator + `" ;;
    --llm-gateway-address) set -- "$@" "dns:///` + gateway + `" ;;
    *) set -- "$@" "$arg" ;;
  esac
  last=$arg
done
exec "$link" "$@"`
	return []string{"sh", "-c", script, "sh", link}
}

// deploy replaces the processes of replicas one after the other by those of a version, as a rolling update does.
func (v *versions) deploy(t *testing.T, program string, replicas []*harness.Replica) {
	t.Helper()
	for _, r := range replicas {
		link := filepath.Join(v.folder, r.Name)
		require.NoError(t, os.Symlink(program, link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
		restarted(t, []*harness.Replica{r}, func(r *harness.Replica) { r.Signal(syscall.SIGTERM) })
	}
}
