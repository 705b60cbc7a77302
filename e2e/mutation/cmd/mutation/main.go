// Mutation breaks each guard of Pawl on purpose and shows which test notices. It ends with 1 when one goes unnoticed.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"pawl.internal/e2e/harness"
	"pawl.internal/e2e/mutation"
)

func main() {
	only := flag.String("only", "", "regular expression of the names of the mutations to try; all if empty")
	verbose := flag.Bool("v", false, "show what the tests say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if unnoticed := tryAll(ctx, regexp.MustCompile(*only), *verbose); unnoticed > 0 {
		fmt.Printf("%d broken guards went unnoticed\n", unnoticed)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// tryAll tries the mutations whose names match, and counts those that go unnoticed.
func tryAll(ctx context.Context, names *regexp.Regexp, verbose bool) (unnoticed int) {
	for _, m := range mutation.All() {
		if ctx.Err() != nil || !names.MatchString(m.Name) {
			continue
		}
		began := time.Now()
		var output bytes.Buffer
		err := m.Try(ctx, harness.Root(), &output)
		result := "noticed"
		if err != nil {
			result = err.Error()
			unnoticed++
		}
		fmt.Printf("%-28s %5.1f s  %s\n", m.Name, time.Since(began).Seconds(), result)
		if verbose || err != nil {
			fmt.Println(output.String())
		}
	}
	return unnoticed
}
