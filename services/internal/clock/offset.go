package clock

import (
	"context"
	"time"
)

// Offset returns a clock that runs beside base, wrong by skew (negative: behind). It stands for a host whose clock is off,
// so that tests can prove that skew between hosts changes nothing. Timers and sleeps are base's: skew does not change how
// fast time passes.
func Offset(base Clock, skew time.Duration) Clock { return offset{base: base, skew: skew} }

type offset struct {
	base Clock
	skew time.Duration
}

func (o offset) Now() time.Time { return o.base.Now().Add(o.skew) }

func (o offset) NewTimer(d time.Duration) Timer { return o.base.NewTimer(d) }

func (o offset) Sleep(ctx context.Context, d time.Duration) error { return o.base.Sleep(ctx, d) }
