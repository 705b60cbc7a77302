package store_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/orchestrator/machine"
	"pawl.internal/services/orchestrator/store"
)

// opened returns a window with room in which nothing waits.
func opened(room int) *store.Window {
	w := store.NewWindow()
	mark, _ := w.Waiting(machine.Batch)
	w.Drained(machine.Batch, mark)
	w.Adjust(machine.Batch, room)
	<-w.Wake()
	return w
}

func woken(w *store.Window) bool {
	select {
	case <-w.Wake():
		return true
	default:
		return false
	}
}

func TestWindowAdmitsUntilItIsFull(t *testing.T) {
	t.Parallel()
	w := opened(5)
	require.Equal(t, 3, w.Admit(machine.Batch, 3))
	require.Equal(t, 2, w.Admit(machine.Batch, 3))
	require.Zero(t, w.Admit(machine.Batch, 1))
	require.False(t, woken(w), "those who make steps wait say so after their commit")
	w.Return(machine.Batch, 1)
	require.False(t, woken(w), "nobody waits")
	require.Equal(t, 1, w.Admit(machine.Batch, 1))
	w.Adjust(machine.Batch, -2)
	w.Return(machine.Batch, 2)
	require.Zero(t, w.Admit(machine.Batch, 1))
	require.EqualValues(t, 3, w.Left(machine.Batch))
	require.Zero(t, w.Admit(machine.Interactive, 1), "the classes have windows of their own")
}

// While steps wait, none goes past them, and all that becomes free wakes the dispatcher.
func TestNoneGoesPastThoseThatWait(t *testing.T) {
	t.Parallel()
	w := opened(5)
	w.Wait(machine.Batch)
	require.True(t, woken(w))
	require.Zero(t, w.Admit(machine.Batch, 1))
	w.Return(machine.Batch, 1)
	require.True(t, woken(w))
	w.Unused(machine.Batch, 1)
	require.True(t, woken(w))
	mark, waiting := w.Waiting(machine.Batch)
	require.True(t, waiting)
	w.Drained(machine.Batch, mark)
	require.Equal(t, 1, w.Admit(machine.Batch, 1))
}

// Steps that come to wait while the dispatcher looks are not forgotten when it has dispatched those that it saw. But they do
// not keep the window closed either: where steps come all the time, it would never open again.
func TestStepsThatComeDuringALook(t *testing.T) {
	t.Parallel()
	w := opened(5)
	w.Wait(machine.Batch)
	mark, _ := w.Waiting(machine.Batch)
	w.Wait(machine.Batch)
	require.Zero(t, w.Admit(machine.Batch, 1))
	w.Drained(machine.Batch, mark)
	_, waiting := w.Waiting(machine.Batch)
	require.True(t, waiting)
	require.Equal(t, 1, w.Admit(machine.Batch, 1))
}

func TestNewWindowIsClosed(t *testing.T) {
	t.Parallel()
	w := store.NewWindow()
	for _, class := range machine.AllClasses() {
		_, waiting := w.Waiting(class)
		require.True(t, waiting)
		require.Zero(t, w.Room(class))
		w.Adjust(class, 1)
		require.Zero(t, w.Admit(class, 1), "before the dispatcher has looked, nobody knows what waits")
	}
}

func TestWindowIsNeverOverdrawn(t *testing.T) {
	t.Parallel()
	w := opened(100)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				n := w.Admit(machine.Batch, 20)
				if w.Room(machine.Batch) < 0 {
					t.Error("the window was overdrawn")
				}
				w.Unused(machine.Batch, n)
			}
		})
	}
	all.Wait()
	require.Equal(t, 100, w.Room(machine.Batch))
	require.Zero(t, w.Left(machine.Batch))
}
