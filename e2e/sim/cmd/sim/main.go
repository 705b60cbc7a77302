// Command sim runs the deterministic simulation (docs/simulation.md): many seeds, or one with a trace.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"pawl.internal/e2e/sim"
)

// enough is after how many seeds everything must have happened that may go wrong.
const enough = 2000

func main() {
	seeds := flag.Int("seeds", 1000, "how many seeds are simulated")
	first := flag.Uint64("first", 0, "the first of them")
	seed := flag.Uint64("seed", 0, "with -trace: the one seed that is simulated")
	trace := flag.Bool("trace", false, "show what happens under one seed")
	broken := flag.String("break", "", "leave a guard out, in order to see which seed notices")
	guards := flag.Bool("guards", false, "leave each guard out in turn, and say after how many seeds that is noticed")
	failures := flag.Int("failures", 3, "stop after so many failures")
	flag.Parse()
	guard, ok := guardOf(*broken)
	switch {
	case !ok:
		fmt.Fprintf(os.Stderr, "there is no guard %q; there are %q\n", *broken, sim.AllGuards())
		os.Exit(2)
	case *trace:
		ok = one(*seed, guard)
	case *guards:
		ok = eachGuard(os.Stdout, *seeds)
	default:
		ok = many(os.Stdout, *first, *seeds, guard, *failures)
	}
	if !ok {
		os.Exit(1)
	}
}

func guardOf(name string) (sim.Guard, bool) {
	guard := sim.Guard(name)
	return guard, name == "" || slices.Contains(sim.AllGuards(), guard)
}

// one shows what happens under one seed.
func one(seed uint64, guard sim.Guard) bool {
	out := bufio.NewWriter(os.Stdout)
	r := sim.Run(sim.Options{Seed: seed, Trace: out, Break: guard})
	_ = out.Flush()
	fmt.Printf("\nseed %d: %v of the fake clock, digest %x\n", seed, r.Took, r.Digest)
	if r.Failure != nil {
		fmt.Printf("BROKEN %s\n  %s\n", r.Failure.Promise, r.Failure.Detail)
	}
	return r.Failure == nil
}

// many simulates seeds and prints a table of what happened in them.
func many(out io.Writer, first uint64, n int, guard sim.Guard, failures int) bool {
	began := time.Now()
	m := sim.RunMany(first, n, guard, failures)
	took := time.Since(began)
	for k, count := range m.Seen {
		fmt.Fprintf(out, "%-45s %10d\n", sim.Seen(k), count)
	}
	fmt.Fprintf(out, "\n%d seeds in %v (%.0f a second), %d failed\n",
		m.Seeds, took.Round(time.Millisecond), float64(m.Seeds)/took.Seconds(), len(m.Failed))
	for _, r := range m.Failed {
		fmt.Fprintf(out, "\nseed %d, at %v: BROKEN %s\n  %s\n  %s\n", r.Seed, r.Failure.At, r.Failure.Promise, r.Failure.Detail, sim.Replay(r.Seed, guard))
	}
	if len(m.Failed) > 0 || n < enough {
		return len(m.Failed) == 0
	}
	for _, never := range m.Seen.Never() { // then nothing is shown about it
		fmt.Fprintf(out, "never happened: %s\n", never)
	}
	return len(m.Seen.Never()) == 0
}

// eachGuard leaves out one guard after the other.
func eachGuard(out io.Writer, most int) bool {
	ok := true
	for _, guard := range sim.AllGuards() {
		m := sim.RunMany(0, most, guard, 1)
		if len(m.Failed) == 0 {
			ok = false
			fmt.Fprintf(out, "%-20s NOT NOTICED in %d seeds\n", guard, m.Seeds)
			continue
		}
		f := m.Failed[0]
		fmt.Fprintf(out, "%-20s seed %-5d %s: %s\n", guard, f.Seed, f.Failure.Promise, f.Failure.Detail)
	}
	return ok
}
