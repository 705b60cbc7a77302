package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"pawl.internal/services/internal/rpc"
)

// pipeBytes is how much an in-memory connection holds in each direction.
const pipeBytes = 1 << 20

// network joins the services of a process with each other and with those elsewhere.
type network struct {
	listen map[string]string
	peers  map[string]string

	mu    sync.Mutex
	local map[string]*bufconn.Listener // guarded by mu; of the services that run in this process
	conns map[string]*grpc.ClientConn  // guarded by mu
}

func newNetwork(cfg Config) *network {
	return &network{
		listen: cfg.Listen, peers: cfg.Peers,
		local: map[string]*bufconn.Listener{}, conns: map[string]*grpc.ClientConn{},
	}
}

// addLocal makes the service reachable in memory; it must come before the first dial to it.
func (n *network) addLocal(service string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.local[service] = bufconn.Listen(pipeBytes)
}

// reachable reports whether dial has somewhere to go.
func (n *network) reachable(service string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.local[service] != nil || n.peers[service] != ""
}

// listeners opens what the service serves on: memory, and TCP where configured.
func (n *network) listeners(ctx context.Context, service string) ([]net.Listener, error) {
	n.mu.Lock()
	local := n.local[service]
	n.mu.Unlock()
	address := n.listen[service]
	if address == "" {
		return []net.Listener{local}, nil
	}
	tcp, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s cannot listen: %w", service, err)
	}
	return []net.Listener{local, tcp}, nil
}

func (n *network) dial(service string) (*grpc.ClientConn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if conn := n.conns[service]; conn != nil {
		return conn, nil
	}
	conn, err := n.connect(service)
	if err != nil {
		return nil, err
	}
	n.conns[service] = conn
	return conn, nil
}

// connect makes the connection to a service. n.mu is held.
func (n *network) connect(service string) (*grpc.ClientConn, error) {
	if local := n.local[service]; local != nil {
		inMemory := func(ctx context.Context, _ string) (net.Conn, error) { return local.DialContext(ctx) }
		return rpc.Dial("passthrough:///"+service, grpc.WithContextDialer(inMemory))
	}
	target := n.peers[service]
	if target == "" {
		return nil, errNoAddress(service)
	}
	return rpc.Dial(target)
}

// close closes all connections.
func (n *network) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, conn := range n.conns {
		errs = append(errs, conn.Close())
	}
	clear(n.conns)
	return errors.Join(errs...)
}

func errNoAddress(service string) error {
	return fmt.Errorf("no address of %s is known: give --%s-address, or serve it in this process too", service, service)
}
