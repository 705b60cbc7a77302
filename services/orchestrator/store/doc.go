// Package store is the orchestrator's part of PostgreSQL, and the only place that writes the state of runs and steps.
//
// Events of runs are carried out in groups (Store.Submit): one transaction locks the runs concerned, reads them in a second
// statement, applies the state machine in memory and writes the differences with one statement a table. What a transition
// leads to outside (stream entries, wake-ups) is published after the commit, from another goroutine. Sweeps and readers
// only read; they submit events like everybody else.
package store
