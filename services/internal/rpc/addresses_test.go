package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/rpc"
	"pawl.internal/services/testkit"
)

// named answers GetRun with its own name.
type named struct {
	systemv1.UnimplementedOrchestratorServiceServer
	name string
}

func (n named) GetRun(context.Context, *systemv1.GetRunRequest) (*systemv1.GetRunResponse, error) {
	return &systemv1.GetRunResponse{Kind: n.name}, nil
}

// serveNamed serves on a port of its own until the test ends or stop is called.
func serveNamed(t *testing.T, name string) (address string, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	systemv1.RegisterOrchestratorServiceServer(server, named{name: name})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return listener.Addr().String(), server.Stop
}

func TestAListOfAddressesIsSharedAndOutlivesItsMembers(t *testing.T) {
	t.Parallel()
	first, stopFirst := serveNamed(t, "first")
	second, _ := serveNamed(t, "second")
	for _, target := range []string{"ipv4:///" + first + "," + second, "ipv4:" + first + "," + second} {
		conn, err := rpc.Dial(target)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, conn.Close()) })
		client := systemv1.NewOrchestratorServiceClient(conn)
		ask := func() (string, error) {
			answer, err := client.GetRun(t.Context(), &systemv1.GetRunRequest{Tenant: "t", RunId: someRun})
			return answer.GetKind(), err
		}
		asked := map[string]bool{}
		testkit.Eventually(t, 10*time.Second, func() error {
			name, err := ask()
			asked[name] = true
			if err == nil && (!asked["first"] || !asked["second"]) {
				err = context.DeadlineExceeded
			}
			return err
		})
		if strings.HasPrefix(target, "ipv4:///") {
			continue
		}
		stopFirst()
		for range 10 {
			name, err := ask()
			require.NoError(t, err)
			require.Equal(t, "second", name)
		}
	}
}

func TestAListOfAddressesThatIsNone(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"ipv4:///127.0.0.1":             `"127.0.0.1" in target`,
		"ipv4:///127.0.0.1:1,localhost": `"localhost" in target`,
		"ipv4:///[::1]:1":               "is no ipv4 address with a port: write ipv4:///127.0.0.1:9091, with a comma",
		"ipv6:///127.0.0.1:1":           "is no ipv6 address with a port: write ipv6:///[::1]:9091, with a comma",
		"ipv4:///":                      `"" in target`,
	} {
		conn, err := rpc.Dial(target)
		require.NoError(t, err)
		_, err = systemv1.NewOrchestratorServiceClient(conn).GetRun(t.Context(), &systemv1.GetRunRequest{Tenant: "t", RunId: someRun})
		require.ErrorContains(t, err, want, target)
		require.NoError(t, conn.Close())
	}
}
