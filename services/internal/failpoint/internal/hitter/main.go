// Hitter comes to the points that its arguments name, one after the other, and tells when it has passed each. Tests of
// package failpoint kill, stop and starve it.
package main

import (
	"fmt"
	"os"

	"pawl.internal/services/internal/failpoint"
)

func main() {
	if err := failpoint.Start("hitter"); err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	for _, point := range os.Args[1:] {
		failpoint.Hit(point, "label")
		fmt.Fprintln(os.Stdout, "passed", point)
	}
}
