package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc.
const clockTick = 10 * time.Millisecond

// process is a line of /proc/*/stat.
type process struct {
	parent int
	cpu    time.Duration // of itself and of its children that have ended
}

// cpuTime is the processor time that a process and all below it have used: the system with its stores. It is 0 where there
// is no /proc.
func cpuTime(root int) time.Duration {
	processes := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil { // else it has ended meanwhile
			if pid, p, ok := parseStat(string(text)); ok {
				processes[pid] = p
			}
		}
	}
	var total time.Duration
	for pid, p := range processes {
		if below(processes, pid, root) {
			total += p.cpu
		}
	}
	return total
}

func below(processes map[int]process, pid, root int) bool {
	for ; pid > 1; pid = processes[pid].parent {
		if pid == root {
			return true
		}
	}
	return false
}

// parseStat reads a line of /proc/*/stat; the name in parentheses may hold anything.
func parseStat(line string) (int, process, bool) {
	name := strings.LastIndex(line, ")")
	open := strings.Index(line, " (")
	if name < 0 || open < 0 {
		return 0, process{}, false
	}
	pid, err := strconv.Atoi(line[:open])
	fields := strings.Fields(line[name+1:])
	if err != nil || len(fields) < 15 {
		return 0, process{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(fields[i]); return n } // the kernel writes numbers
	ticks := number(11) + number(12) + number(13) + number(14)
	return pid, process{parent: number(1), cpu: time.Duration(ticks) * clockTick}, true
}
