// Package inspect is what can be checked of the gateway's schema on a live system: that money adds up to the last digit, that
// nothing is asked twice, and that no request is left in flight. It reads only.
package inspect

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"pawl.internal/services/internal/checkup"
)

const (
	// UsualLease stands for the gateways' lease while none of them tells it; it is the default of the flag.
	UsualLease = 10 * time.Second
	// judgeTime is how long the calls of a dead gateway may take to be judged once they may be.
	judgeTime = 3 * time.Second
	// bookTime is how long a request that an older gateway has settled may lack its day: two rounds of the sweep.
	bookTime = 20 * time.Second
)

// Checks lists the checks of schema llm.
func Checks() []*checkup.Check {
	return []*checkup.Check{
		{
			Name:     "purse-sum",
			Promise:  "I09: what a run has spent is the sum over its calls and over their requests, to the last digit",
			Means:    "the cost of the run is wrong",
			Remedy:   "report the runs: purse, call and request are written in one transaction",
			Severity: checkup.Broken, Find: checkup.OfRuns(purseSums),
		},
		{
			Name:     "purse-reserved",
			Promise:  "I09: what a run has reserved is the sum of the worst cases of its requests in flight",
			Means:    "calls are refused for want of budget, or admitted beyond it",
			Remedy:   "report the runs: purse and request are written in one transaction",
			Severity: checkup.Broken, Find: checkup.OfRuns(purseReserved),
		},
		{
			Name:     "over-budget",
			Promise:  "I09: what a run has spent and reserved stays within its budget",
			Means:    "a request has cost more than its worst case",
			Remedy:   "compare the model's prices and max_tokens in the models file with what the provider charges",
			Severity: checkup.Broken, Find: checkup.OfRuns(overBudget),
		},
		{
			Name:     "call-state",
			Promise:  "I02: the state of a call follows from its requests, and an answer that counts is there",
			Means:    "a paid answer may not be found, and be bought again",
			Remedy:   "report the runs: call and request are written in one transaction",
			Severity: checkup.Broken, Find: checkup.OfRuns(callStates),
		},
		{
			Name:     "asked-twice",
			Promise:  "I02: a question of a step has one key in its generation",
			Means:    "the same question was asked in two forms, and paid for twice",
			Remedy:   "report the runs: rendering a step's question must always give the same bytes",
			Severity: checkup.Broken, Find: checkup.OfRuns(askedTwice),
		},
		{
			Name:     "call-of-dead",
			Promise:  "I02: no request stays in flight when its gateway is gone",
			Means:    "the run waits for an answer that nobody will store",
			Remedy:   "see whether an LLM gateway runs, and can write to PostgreSQL without a break: after a lease it judges the calls of others",
			Severity: checkup.Broken, Settles: UsualLease + judgeTime, Find: callsOfDead,
		},
		{
			Name:     "spend-booked",
			Promise:  "I09: what a request has cost is booked on a day",
			Means:    "statistics of spend and budgets of tenants and batches lack it",
			Remedy:   "see whether an LLM gateway of this version runs: it books within seconds what older ones have settled",
			Severity: checkup.Broken, Settles: bookTime, Find: checkup.OfRuns(unbooked),
		},
		{
			Name:     "spend-sum",
			Promise:  "I09: the days' spend is the sum of the call log, and the months' and batches' sums are those of the days, to the last digit",
			Means:    "statistics of spend are wrong, and budgets of tenants and batches hold too early or too late",
			Remedy:   "report it: request, day and sum are written in one transaction",
			Severity: checkup.Broken, Find: spendSums,
		},
		{
			Name:     "ambiguous-call",
			Promise:  "a call whose fate is unknown is shown, with its worst case booked",
			Means:    "the provider may have charged for an answer that nobody has",
			Remedy:   "nothing: the step's on_ambiguous has decided; compare with the provider's bill if you like",
			Severity: checkup.Note, Find: checkup.OfRuns(ambiguousCalls),
		},
	}
}

const purseSums = `
SELECT s.run_id::text, s.run_id, 'the purse says ' || s.spent || ' USD, its calls ' || c.cost || ', their requests ' || t.cost
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.run_spend s ON s.run_id = k.id
CROSS JOIN LATERAL (SELECT coalesce(sum(l.cost), 0) AS cost FROM llm.llm_call_log l WHERE l.run_id = s.run_id) c
CROSS JOIN LATERAL (SELECT coalesce(sum(y.cost), 0) AS cost FROM llm.llm_try y WHERE y.run_id = s.run_id) t
WHERE s.spent <> c.cost OR s.spent <> t.cost
UNION ALL
SELECT l.run_id || '/' || encode(l.call_key, 'hex'), l.run_id, 'a call of step ' || l.step || ' says ' || l.cost || ' USD, its requests ' || t.cost
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.llm_call_log l ON l.run_id = k.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(y.cost), 0) AS cost FROM llm.llm_try y WHERE y.run_id = l.run_id AND y.call_key = l.call_key
) t
WHERE l.cost <> t.cost`

const purseReserved = `
SELECT s.run_id::text, s.run_id, 'the purse has reserved ' || s.reserved || ' USD, its requests in flight ' || t.reserved
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.run_spend s ON s.run_id = k.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(y.reserved) FILTER (WHERE y.state = 'in_flight'), 0) AS reserved, coalesce(sum(y.reserved), 0) AS whole
    FROM llm.llm_try y WHERE y.run_id = s.run_id
) t
WHERE s.reserved <> t.reserved OR t.whole <> t.reserved`

const overBudget = `
SELECT s.run_id::text, s.run_id, 'spent ' || s.spent || ' USD and reserved ' || s.reserved || ' of ' || s.budget
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.run_spend s ON s.run_id = k.id
WHERE s.spent + s.reserved > s.budget`

const callStates = `
SELECT l.run_id || '/' || encode(l.call_key, 'hex'), l.run_id,
       'a call of step ' || l.step || ' is ' || l.state || ' with ' || l.tries || ' requests; stored are ' || t.n || ', ' || t.flying ||
       ' of them in flight' || CASE WHEN l.winning_try IS NULL THEN '' ELSE ', and number ' || l.winning_try || ' has the answer' END
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.llm_call_log l ON l.run_id = k.id
CROSS JOIN LATERAL (
    SELECT count(*) AS n, count(*) FILTER (WHERE y.state = 'in_flight') AS flying,
           count(*) FILTER (WHERE y.try_no = l.winning_try AND y.state = 'answered' AND y.answer IS NOT NULL) AS won
    FROM llm.llm_try y WHERE y.run_id = l.run_id AND y.call_key = l.call_key
) t
WHERE t.n <> l.tries OR (l.state = 'answered') <> (l.winning_try IS NOT NULL) OR l.winning_try IS NOT NULL AND t.won = 0
   OR l.state <> 'answered' AND (l.state = 'in_flight') <> (t.flying > 0)`

const unbooked = `
SELECT y.run_id || '/' || encode(y.call_key, 'hex') || '/' || y.try_no, y.run_id,
       'a request to ' || y.provider || '/' || y.model || ' has cost ' || y.cost || ' USD, and ' ||
       coalesce('booked are ' || y.booked, 'nothing is booked')
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.llm_try y ON y.run_id = k.id
WHERE y.state <> 'in_flight' AND y.booked IS DISTINCT FROM y.cost`

const daySums = `
SELECT 'days', NULL::uuid, 'the days'' spend is ' || d.cost || ' USD, and booked in the call log are ' || t.cost
FROM (SELECT coalesce(sum(cost), 0) AS cost FROM llm.spend_day) d, (SELECT coalesce(sum(booked), 0) AS cost FROM llm.llm_try) t
WHERE d.cost <> t.cost
UNION ALL
SELECT coalesce(d.tenant, m.tenant) || '/' || coalesce(d.month, m.month), NULL, 'the tenant''s days come to ' || coalesce(d.cost, 0) ||
       ' USD in this month, and the sum that its budget is held against is ' || coalesce(m.cost, 0)
FROM (SELECT tenant, date_trunc('month', day::timestamp)::date AS month, sum(cost) AS cost FROM llm.spend_day GROUP BY 1, 2) d
FULL JOIN (SELECT id AS tenant, period AS month, sum(cost) AS cost FROM llm.spend_sum WHERE kind = 'tenant_month' GROUP BY 1, 2) m
    ON m.tenant = d.tenant AND m.month = d.month
WHERE coalesce(d.cost, 0) <> coalesce(m.cost, 0)
UNION ALL
SELECT coalesce(b.id, r.id), NULL, 'the batch''s runs have spent ' || coalesce(r.cost, 0) ||
       ' USD, and the sum that its budget is held against is ' || coalesce(b.cost, 0)
FROM (SELECT id, sum(cost) AS cost FROM llm.spend_sum WHERE kind = 'batch' GROUP BY 1) b
FULL JOIN (SELECT batch_id::text AS id, sum(spent) AS cost FROM llm.run_spend WHERE batch_id IS NOT NULL GROUP BY 1) r ON r.id = b.id
WHERE coalesce(b.cost, 0) <> coalesce(r.cost, 0)`

func spendSums(ctx context.Context, t *checkup.Target) (found []checkup.Finding, err error) {
	err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err = checkup.Ask(ctx, tx, daySums)
		return err
	})
	return found, err
}

const askedTwice = `
SELECT l.run_id || '/' || l.step || '/' || l.shard || '/' || l.generation || '/' || l.ask, l.run_id,
       'question ' || l.ask || ' of step ' || l.step || '[' || l.shard || '] in generation ' || l.generation || ' has ' || count(*) || ' keys'
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.llm_call_log l ON l.run_id = k.id
GROUP BY l.run_id, l.step, l.shard, l.generation, l.ask HAVING count(*) > 1`

const ambiguousCalls = `
SELECT y.run_id || '/' || encode(y.call_key, 'hex') || '/' || y.try_no, y.run_id,
       'a request of step ' || l.step || ' to ' || y.provider || '/' || y.model || ', booked with ' || y.cost || ' USD'
FROM (SELECT unnest($1::uuid[]) AS id) k
JOIN llm.llm_call_log l ON l.run_id = k.id
JOIN llm.llm_try y ON y.run_id = l.run_id AND y.call_key = l.call_key AND y.state = 'ambiguous'`

const deadCalls = `
SELECT y.run_id || '/' || encode(y.call_key, 'hex') || '/' || y.try_no, y.run_id,
       'a request to ' || y.provider || '/' || y.model || ' is in flight since ' || to_char(y.sent_at, 'HH24:MI:SS') || ' with gateway ' || y.holder ||
       CASE WHEN r.holder IS NULL THEN ', which is not on record' ELSE ', whose lease ended at ' || to_char(r.lease_until, 'HH24:MI:SS') END
FROM llm.llm_try y
LEFT JOIN llm.replica r ON r.holder = y.holder
WHERE y.state = 'in_flight' AND (r.holder IS NULL OR r.lease_until < now())
  AND NOT EXISTS (SELECT FROM llm.economy_item i
                  WHERE i.run_id = y.run_id AND i.call_key = y.call_key AND i.try_no = y.try_no AND i.state <> 'done')`

// livingLease is what is left of the leases of living gateways, which renew them ten times as often as they must.
const livingLease = `SELECT max(lease_until - now()) FROM llm.replica WHERE lease_until > now()`

func callsOfDead(ctx context.Context, t *checkup.Target) (found []checkup.Finding, err error) {
	err = t.Snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var lease *time.Duration
		if err := tx.QueryRow(ctx, livingLease).Scan(&lease); err != nil {
			return err
		}
		found, err = checkup.Ask(ctx, tx, deadCalls)
		for i := range found {
			if lease != nil {
				found[i].Settles = *lease + judgeTime
			}
		}
		return err
	})
	return found, err
}
