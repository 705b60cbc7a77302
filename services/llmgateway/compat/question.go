package compat

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/money"
)

// lateness is how long after its time a request is waited for that the gateway itself is about to give up.
const lateness = time.Second

// asked is a question that is on its way for a request.
type asked struct {
	scope uuid.UUID
	call  Call
	// until bounds the request.
	until context.Context //nolint:containedctx // it bounds one request, which this is
}

// ask sends the question of a request on its way, in the scope of its idempotency key or in a fresh one. The step's name
// tells in the call log what was asked for. End must be called.
func (e *endpoint) ask(r *http.Request, h holder, step string, q *systemv1.GenerateRequest, live bool) (a *asked, end func(), err error) {
	t, err := e.readTerms(r.Header, q)
	if err != nil {
		return nil, nil, err
	}
	if err := e.checkModel(q.GetRoute()); err != nil {
		return nil, nil, err
	}
	q.Tenant = h.tenant
	a = &asked{scope: e.IDs.V7()}
	q.Step = &systemv1.StepRef{RunId: a.scope[:], Step: step, Shard: -1}
	if t.key != "" {
		if a.scope, err = e.Gateway.Scope(r.Context(), Key{Tenant: h.tenant, Text: t.key}, q, a.scope); err != nil {
			return nil, nil, scopeProblem(err)
		}
		q.Step.RunId = a.scope[:]
	}
	exchangeOf(r.Context()).scope = a.scope.String()
	if a.call, err = e.Gateway.Ask(r.Context(), q, live); err != nil {
		return nil, nil, err
	}
	until, end := context.WithTimeout(r.Context(), t.timeout+lateness)
	a.until = until
	return a, end, nil
}

func scopeProblem(err error) error {
	if errors.Is(err, ErrKeyReused) {
		return &problem{
			status: http.StatusUnprocessableEntity, kind: kindInvalid, code: "idempotency_key_reused", param: headerKey,
			message: "this Idempotency-Key came with another request before: use a new key for a new request",
		}
	}
	return err
}

// await waits for the end of the question.
func (a *asked) await() (Result, error) {
	select {
	case <-a.call.Done():
		return a.call.Result()
	case <-a.until.Done():
		return Result{}, a.gaveUp()
	}
}

// gaveUp says why a request ended before its question.
func (a *asked) gaveUp() error {
	if errors.Is(a.until.Err(), context.Canceled) {
		return a.until.Err()
	}
	return &problem{
		status: http.StatusGatewayTimeout, kind: kindServer, code: "timeout", final: true,
		message: "the answer was not there in time; it will be stored and paid when it comes: with the same Idempotency-Key " +
			"it can be fetched then, and without one a repeat is paid again",
	}
}

// describe says in headers how the question ended.
func (e *endpoint) describe(w http.ResponseWriter, r *http.Request, a *asked, result Result) {
	if a.call.Replayed() {
		w.Header().Set(headerReplayed, "true")
		exchangeOf(r.Context()).replayed = true
	}
	cost, key := result.Answer.GetCostPicoUsd(), result.Answer.GetCallKey()
	if result.Answer == nil {
		cost, key = result.Failure.GetCostPicoUsd(), result.Failure.GetCallKey()
	}
	if len(key) > 0 {
		w.Header().Set(headerCall, a.scope.String()+"/"+hex.EncodeToString(key))
		w.Header().Set(headerCost, money.Pico(cost).String())
	}
}

// created is when a scope was made, in seconds since 1970. A replayed answer so says the same as the first.
func created(scope uuid.UUID) int64 {
	const milliseconds = 16 // the version and fractions follow in the same word
	return int64(binary.BigEndian.Uint64(scope[:8])>>milliseconds) / 1000
}
