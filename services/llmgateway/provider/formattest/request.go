package formattest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/internal/golden"
	"pawl.internal/services/llmgateway/provider"
)

// Requests puts the questions into the format, all of them if none is named. What it cannot say is refused, and nothing is
// sent. The goldens stand in the folder.
func (f Format) Requests(t *testing.T, folder string, names ...string) {
	for name, q := range questions() {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []byte
			c := f.client(t, provider.Local{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				sent = append(sent, transcript(t, r)...)
			})})
			refused := c.Check(q)
			x := c.Send(t.Context(), q)
			if refused != nil {
				require.EqualError(t, x.Err, refused.Error())
				require.Empty(t, sent)
				require.False(t, x.Sent)
				_, ok := errors.AsType[*provider.RequestError](refused)
				require.True(t, ok, "%v", refused)
				sent = []byte("refused: " + refused.Error() + "\n")
			}
			golden.Assert(t, filepath.Join("testdata", folder, name+".golden"), sent)
		})
	}
}

// transcript is a request as text. Its body is indented for those who read the golden.
func transcript(t *testing.T, r *http.Request) []byte {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s\n", r.Method, r.URL.RequestURI())
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%s: %s\n", name, r.Header.Get(name))
	}
	require.NotContains(t, r.URL.String(), secret)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	out.WriteByte('\n')
	require.NoError(t, json.Indent(&out, bytes.TrimSpace(body), "", "  "))
	out.WriteByte('\n')
	return out.Bytes()
}
