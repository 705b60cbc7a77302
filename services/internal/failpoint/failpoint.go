// Package failpoint names the points between durable actions at which a process can be made to die, stand still or run out
// of memory, so that tests can prove that it may.
//
// A point is a call of Hit with a name of Table. In usual builds Hit is empty and costs nothing. In builds with the tag
// `failpoints` rules say what happens where:
//
//	point[(match)][#n]=action[(argument)][ once]
//
//	orchestrator.group.committed=kill once        the first process that comes there dies as by kill -9; later ones do not
//	runner.execute(glutton)=allocate              whoever executes the step "glutton" runs out of memory, every time
//	gateway.call.recorded#2=stop                  the second time in a process, it stops until somebody sends SIGCONT
//
// Match is a label of the point (Table says which it has) or the name of the process's service. The actions are kill, stop,
// sleep(duration) and allocate(MiB): memory is taken until the process dies, by the kernel's hand or, above that many MiB
// (2048 if none are given), by its own. Rules come from the variable PAWL_FAILPOINTS, separated by semicolons, and from
// the file `armed` in the folder PAWL_FAILPOINT_DIR, one a line, which is read at every point: so a running system can be
// armed. What acts leaves a file there, named after what stands before the `=`, with the id of the process, before it acts;
// `once` means: not if there is one.
//
// In such builds PAWL_CLOCK_OFFSET makes the process's clock wrong, by a duration such as -1h.
package failpoint

// Point is a point and what a crash there means.
type Point struct {
	// Name begins with the service; what is in a shared package begins with that package.
	Name string
	// Label says what the point's label is; empty if it has none.
	Label string
	// Durable is what is stored or done before, and Missing what is not yet.
	Durable, Missing string
}
