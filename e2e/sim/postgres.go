package sim

import "time"

// walDelay is how long an asynchronous commit may stay in memory before the server writes it by itself.
const walDelay = 600 * time.Millisecond

// postgres is the server: it takes transactions while it is up, and after a crash knows all that was committed durably, and
// of what was committed asynchronously since all but the newest.
type postgres struct {
	s    *Sim
	away time.Duration
	// memory are the asynchronous commits that are not on disk yet, in order.
	memory []asyncCommit
}

type asyncCommit struct {
	at time.Duration
	// undo makes it unhappen.
	undo func()
}

func newPostgres(s *Sim) *postgres { return &postgres{s: s} }

func (pg *postgres) up() bool { return pg.s.now >= pg.away }

// reads says whether a process can read now. What it reads it reads at this instant.
func (pg *postgres) reads(p *process) bool { return pg.up() && !pg.s.cut(p, nil) }

// tx carries out a transaction at one instant, and then tells the process that it is committed, or that its fate is unknown
// (UNAVAILABLE). Body returns how it is undone if it was committed asynchronously, nil if it is on disk.
func (pg *postgres) tx(p *process, body func() (undo func()), then func(error)) {
	s, life := pg.s, p.life
	answer := func(err error) {
		s.queue.add(event{at: s.now + s.travel(), process: p, life: life, do: func() { then(err) }})
	}
	s.queue.add(event{at: s.now + s.travel(), do: func() {
		gone := !p.up || p.life != life
		switch {
		case !pg.up() || s.cut(p, nil):
			answer(errUnavailable)
		case gone && s.chance(0.5):
			// It died before its COMMIT was sent.
		case s.mishap(0.008):
			s.seen.count(SeenUnknownCommit)
			if s.chance(0.5) {
				pg.commit(body)
			}
			answer(errUnavailable)
		default:
			pg.commit(body)
			answer(nil)
		}
	}})
}

func (pg *postgres) commit(body func() func()) {
	undo := body()
	if undo == nil {
		pg.memory = pg.memory[:0] // a durable commit takes all before it to disk
		return
	}
	pg.memory = append(pg.memory, asyncCommit{at: pg.s.now, undo: undo})
}

// stop makes it refuse everything for a while.
func (pg *postgres) stop(d time.Duration) {
	pg.s.note("postgres", "is away for %v", d)
	pg.s.seen.count(SeenPostgresAway)
	pg.away = max(pg.away, pg.s.now+d)
}

// crash stops it; asynchronous commits of the last moment may be lost, the newest first.
func (pg *postgres) crash(d time.Duration) {
	pg.stop(d)
	pg.s.seen.count(SeenPostgresCrash)
	lost := 0
	for i := len(pg.memory) - 1; i >= 0; i-- {
		if pg.memory[i].at < pg.s.now-walDelay || pg.s.chance(0.2) {
			break
		}
		pg.memory[i].undo()
		pg.s.seen.count(SeenCommitLost)
		lost++
	}
	pg.s.note("postgres", "crashes, and loses %d asynchronous commits", lost)
	pg.memory = pg.memory[:0]
}
