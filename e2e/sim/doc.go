// Package sim is a deterministic simulation of Pawl: the orchestrator's logic, its loops, step-runners, gateways, their
// stores, providers, clients and operators, as models around the real state machine (services/orchestrator/machine), under
// a fake clock.
//
// One seed decides everything: which message comes next, what is delayed, lost or repeated, who crashes, sleeps or is asked
// to leave, and what people do. After the chaos everything heals, and the simulation goes on until nothing moves any more.
// What Pawl promises is checked after every transition and at the end. The models keep the names and the order of the code
// that they stand for; docs/simulation.md says what is modelled and what is not. A Sim belongs to one goroutine.
package sim
