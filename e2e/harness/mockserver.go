package harness

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/testkit"
)

// The OpenAI-compatible server that nobody here wrote.
const (
	mockPackage = "@copilotkit/aimock"
	mockVersion = "1.43.0"
	// MockKey is the only API key that it accepts.
	MockKey = "key-of-the-mock"
)

// MockServer is an OpenAI-compatible server from npm that gives the answers of a file.
type MockServer struct {
	t   testing.TB
	URL string // without /v1
}

// StartMockServer runs the server with its file of answers.
func StartMockServer(t testing.TB, answers string) *MockServer {
	t.Helper()
	folder := InstallNPM(t, "aimock-"+mockVersion, mockPackage+"@"+mockVersion)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address, isTCP := listener.Addr().(*net.TCPAddr)
	require.True(t, isTCP)
	port := address.Port
	require.NoError(t, listener.Close())
	process := testkit.Start(t, testkit.ProcessConfig{
		Path: filepath.Join(folder, "node_modules", ".bin", "llmock"),
		Args: []string{
			"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-f", WriteFile(t, "answers.json", answers),
			"--validate-on-load", "--strict",
		},
		Env: []string{"AIMOCK_API_KEYS=" + MockKey},
	})
	m := &MockServer{t: t, URL: "http://127.0.0.1:" + strconv.Itoa(port)}
	process.AwaitOK(m.URL + "/health")
	return m
}

// Exchanges returns the status of every request that the server has answered, in order.
func (m *MockServer) Exchanges() (statuses []int) {
	m.t.Helper()
	var journal []struct {
		Path     string
		Response struct{ Status int }
	}
	require.NoError(m.t, m.get("/__aimock/journal", &journal))
	for _, entry := range journal {
		require.Equal(m.t, "/v1/chat/completions", entry.Path)
		statuses = append(statuses, entry.Response.Status)
	}
	return statuses
}

func (m *MockServer) get(path string, into any) error {
	header := http.Header{"Authorization": {fmt.Sprintf("Bearer %s", MockKey)}}
	response, err := Exchange(m.t.Context(), http.MethodGet, m.URL+path, header, nil)
	if err != nil {
		return err
	}
	return response.Decode(into)
}
