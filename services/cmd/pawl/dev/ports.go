package dev

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are the TCP ports of a system on one machine, all on loopback.
type Ports struct {
	REST, GRPC, Admin, Console, OpenAI             int
	Orchestrator, LLMGateway, Callback, StepRunner int
	Postgres, Redis                                int
	// OrchestratorAdmin and the others are those of processes of their own; a single process has Admin alone.
	OrchestratorAdmin, LLMGatewayAdmin, StepRunnerAdmin int
}

// PortCount is how many ports follow from a base.
const PortCount = 14

// standardPorts are those that the documentation names.
func standardPorts() Ports {
	return Ports{
		REST: 8080, GRPC: 9090, Admin: 8081, Console: 8088, OpenAI: 8082,
		Orchestrator: 9091, LLMGateway: 9092, Callback: 9093, StepRunner: 9094,
		Postgres: 9095, Redis: 9096,
		OrchestratorAdmin: 9097, LLMGatewayAdmin: 9098, StepRunnerAdmin: 9099,
	}
}

// PortsFrom returns the ports that follow from a base; from 0, the standard ones.
func PortsFrom(base int) Ports {
	if base == 0 {
		return standardPorts()
	}
	return Ports{
		REST: base, GRPC: base + 1, Admin: base + 2, Console: base + 3, OpenAI: base + 4,
		Orchestrator: base + 5, LLMGateway: base + 6, Callback: base + 7, StepRunner: base + 8,
		Postgres: base + 9, Redis: base + 10,
		OrchestratorAdmin: base + 11, LLMGatewayAdmin: base + 12, StepRunnerAdmin: base + 13,
	}
}

// FreePortBase finds a base from which all ports are free now. Nothing keeps them: what is started next should take them.
// They lie below the range from which systems draw the ports of outgoing connections, so that a service that is started
// anew finds its port as it left it.
func FreePortBase(ctx context.Context) (int, error) {
	const first, last, tries = 20_000, 32_000, 100
	for range tries {
		base := first + rand.IntN(last-first) //nolint:gosec // any will do
		if allFree(ctx, base) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row were found: choose with --port-base", PortCount)
}

func allFree(ctx context.Context, base int) bool {
	for port := base; port < base+PortCount; port++ {
		if probe(ctx, port) != nil {
			return false
		}
	}
	return true
}

// probe says why nobody can listen on a port now; nil if one can.
func probe(ctx context.Context, port int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return err
	}
	return listener.Close()
}

// loopback is the address of a port that only this machine reaches.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
