// Package subprocess starts programs that do not outlive the one that started them.
package subprocess

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a program that was started. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed after the program has ended
	err    error         // how it ended; set before exited is closed
}

// Start starts cmd in a process group of its own, so that Ctrl-C at the terminal reaches us and not the program, which we
// end in order. When we are killed, the kernel sends it the signal last (on Linux; elsewhere it stays). SysProcAttr may hold
// a Credential. What cmd has for its Cancel and WaitDelay holds.
func Start(cmd *exec.Cmd, last syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, last)
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts the program and waits for its end.
func (p *Process) run(started chan<- error) {
	// The kernel takes the end of the thread that started the program for our end, so that thread stays until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed after the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the program's end and returns how it ended, as exec.Cmd.Wait does.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// Signal sends a signal; a program that has ended gets none.
func (p *Process) Signal(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // the only error of a child of ours is that it has ended
}

// SignalGroup sends a signal to the program and to whatever of its children is in its process group still.
func (p *Process) SignalGroup(signal syscall.Signal) {
	_ = syscall.Kill(-p.PID(), signal) // there may be nobody left
}
