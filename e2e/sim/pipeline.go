package sim

import (
	"fmt"
	"strings"
	"time"

	"pawl.internal/services/orchestrator/machine"
)

// stepKind is what the execution of a step does.
type stepKind string

const (
	kindTransform stepKind = "transform" // nothing but thinking
	kindLLM       stepKind = "llm"       // asks a model
	kindEffect    stepKind = "effect"    // changes the world outside (http, handler)
)

// conduct is how a step always behaves, whatever the weather.
type conduct string

const (
	conductGood    conduct = "good"
	conductPoison  conduct = "poison"  // kills its worker
	conductHang    conduct = "hang"    // ignores its end, while its runner heartbeats
	conductSkip    conduct = "skip"    // its condition is false
	conductInvalid conduct = "invalid" // its input does not do
	conductReview  conduct = "review"  // its result is for a person
)

// spec is what runners know of a step.
type spec struct {
	kind    stepKind
	conduct conduct
	items   int
	repairs int
}

// pipeline is a plan, and what its steps do.
type pipeline struct {
	plan    *machine.Plan
	specs   []spec
	shape   string
	noCalls bool
	// budget is 0 without a limit; later is how long after its submission a run may begin.
	budget int64
	later  time.Duration
}

const (
	llmTimeout  = 8 * time.Second
	softTimeout = 18 * time.Second
	hardTimeout = 24 * time.Second
	// worstCase is what a request may cost at most, in money of no country.
	worstCase = 100
)

func (p *pipeline) String() string {
	words := make([]string, 0, len(p.specs))
	for i, sp := range p.specs {
		st := &p.plan.Steps[i]
		word := fmt.Sprintf("%s:%s", st.Name, sp.kind)
		if sp.conduct != conductGood {
			word += "(" + string(sp.conduct) + ")"
		}
		if st.FanOut {
			word += fmt.Sprintf("*%d/%d", sp.items, st.Concurrency)
		}
		words = append(words, fmt.Sprintf("%s %s %v", word, st.OnError, st.Needs))
	}
	return fmt.Sprintf("%s [%s] budget %d", p.shape, strings.Join(words, "; "), p.budget)
}

// newPipeline draws one of some shape.
func newPipeline(s *Sim) *pipeline {
	p := &pipeline{plan: &machine.Plan{
		Deadline: s.between(40*time.Second, 90*time.Second), UndoOnFailure: s.chance(0.5), UndoOnCancel: s.chance(0.5),
	}, noCalls: true}
	p.shape = pick(s, "chain", "diamond", "fan-out", "effects", "alone")
	needs := map[string][][]int{
		"chain": {nil, {0}, {1}}, "diamond": {nil, {0}, {0}, {1, 2}}, "fan-out": {nil, {0}}, "effects": {nil, {0}, {1}}, "alone": {nil},
	}[p.shape]
	for i, n := range needs {
		p.add(s, i, n)
	}
	p.plan.Total = len(p.plan.Steps)
	for i := range p.plan.Total {
		if st := &p.plan.Steps[i]; st.Effect && s.chance(0.7) {
			p.addUndo(s, i)
		}
	}
	for _, sp := range p.specs {
		p.noCalls = p.noCalls && sp.kind != kindLLM
	}
	if s.chance(0.3) {
		p.budget = int64(worstCase * (1 + s.below(4)))
	}
	if s.chance(0.1) {
		p.later = s.between(time.Second, 15*time.Second)
	}
	return p
}

func (p *pipeline) add(s *Sim, i int, needs []int) {
	sp := spec{kind: pick(s, kindLLM, kindLLM, kindLLM, kindTransform), conduct: conductGood, repairs: s.below(2)}
	if p.shape == "effects" && i != 1 {
		sp.kind = kindEffect
	}
	if s.chance(0.12) {
		sp.conduct = pick(s, conductPoison, conductHang, conductSkip, conductInvalid, conductReview)
	}
	step := machine.Step{
		Name: string(rune('a' + i)), Needs: needs, Effect: sp.kind == kindEffect,
		OnError:     pick(s, machine.FailRun, machine.FailRun, machine.ContinueRun, machine.ReviewFailure),
		OnAmbiguous: pick(s, machine.RetryAmbiguous, machine.RetryAmbiguous, machine.ReviewAmbiguous, machine.FailAmbiguous),
		MaxLost:     2 + s.below(2), MaxCalls: pick(s, 0, 4, 8), HardTimeout: hardTimeout,
	}
	step.Retry.MaxAttempts, step.Retry.Initial, step.Retry.Factor, step.Retry.Max = 2+s.below(3), time.Second/2, 2, 5*time.Second
	step.Retry.Jitter = 0.2
	if p.shape == "fan-out" && i == 1 || p.shape == "effects" && i == 2 && s.chance(0.5) {
		step.FanOut, step.Concurrency, sp.items = true, 1+s.below(3), s.below(6)
	}
	p.plan.Steps, p.specs = append(p.plan.Steps, step), append(p.specs, sp)
}

// addUndo declares how the effect of a step is undone.
func (p *pipeline) addUndo(s *Sim, i int) {
	undo := p.plan.Steps[i]
	undo.Name, undo.Needs, undo.Undoes, undo.Undo = undo.Name+"~undo", nil, i, 0
	p.plan.Steps[i].Undo = len(p.plan.Steps)
	p.plan.Steps = append(p.plan.Steps, undo)
	sp := spec{kind: kindEffect, conduct: conductGood}
	if s.chance(0.1) {
		sp.conduct = conductInvalid
	}
	p.specs = append(p.specs, sp)
}
