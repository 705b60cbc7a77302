//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Enabled says whether this build has failpoints.
const Enabled = true

// The variables that hold the rules and name the folder of marks.
const (
	rulesVariable  = "PAWL_FAILPOINTS"
	folderVariable = "PAWL_FAILPOINT_DIR"
)

// state is the process's. It is global because points are everywhere, and only in builds for tests.
var state struct {
	once     sync.Once
	folder   string
	fixed    []rule
	err      error
	mu       sync.Mutex
	services []string       // guarded by mu
	armed    string         // guarded by mu; what the file held last
	times    map[string]int // guarded by mu; how often a rule was met since it was armed, by its name
}

func load() {
	state.folder = os.Getenv(folderVariable)
	state.fixed, state.err = parseRules(os.Getenv(rulesVariable))
	state.times = map[string]int{}
}

// Start takes note of the services of this process. An error says what is wrong with the rules.
func Start(services ...string) error {
	state.once.Do(load)
	state.mu.Lock()
	defer state.mu.Unlock()
	state.services = append(state.services, services...)
	return state.err
}

// Hit is a point: what a rule says happens there, before it returns, if it does.
func Hit(point string, labels ...string) {
	for _, r := range rules() {
		if due(&r, point, labels) && mark(&r) {
			act(&r)
		}
	}
}

// Armed reports whether a rule waits for the point. Code asks when it must do in two parts what it does in one otherwise,
// so that there is a point between them, as a connection that breaks makes one.
func Armed(point string) bool {
	for _, r := range rules() {
		if r.meets(point, nil, services()) {
			return true
		}
	}
	return false
}

// rules are those of the variable, and those that the file holds now.
func rules() []rule {
	state.once.Do(load)
	if state.folder == "" {
		return state.fixed
	}
	text, err := os.ReadFile(filepath.Join(state.folder, "armed"))
	if errors.Is(err, fs.ErrNotExist) {
		return state.fixed
	}
	armed, wrong := parseRules(string(text))
	if err = errors.Join(err, wrong); err != nil {
		panic(err) // a test that armed nothing would prove nothing
	}
	begin(string(text))
	return append(armed, state.fixed...)
}

// begin counts anew when other rules are armed.
func begin(text string) {
	state.mu.Lock()
	defer state.mu.Unlock()
	if state.armed != text {
		state.armed, state.times = text, map[string]int{}
	}
}

func services() []string {
	state.mu.Lock()
	defer state.mu.Unlock()
	return state.services
}

// due counts the visit, and reports whether the rule acts.
func due(r *rule, point string, labels []string) bool {
	state.mu.Lock()
	defer state.mu.Unlock()
	if !r.meets(point, labels, state.services) {
		return false
	}
	state.times[r.name]++
	return r.nth == 0 || r.nth == state.times[r.name]
}

// mark leaves the rule's mark, and reports whether it acts: not if it acts once and has.
func mark(r *rule) bool {
	if state.folder == "" {
		return true
	}
	file, err := os.OpenFile(filepath.Join(state.folder, r.name+".hit"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return !r.once
	}
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		panic(fmt.Errorf("mark of failpoint %s: %w", r.name, err))
	}
	return true
}

func act(r *rule) {
	switch r.action {
	case actKill:
		kill()
	case actStop:
		stop()
	case actSleep:
		time.Sleep(r.sleep)
	case actAllocate:
		allocate(r.mib)
	}
}

// kill ends the process before anything else happens.
func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// allocate takes memory, and uses it, until the process dies.
func allocate(mib int) {
	taken := make([][]byte, mib)
	for n := range taken {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		taken[n] = block
	}
	kill()
	runtime.KeepAlive(taken)
}
