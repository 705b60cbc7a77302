package fault_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/golden"
)

func TestEveryReasonHasExactlyOneCompleteRow(t *testing.T) {
	t.Parallel()
	rows := map[faultv1.ErrorReason]fault.Row{}
	for _, row := range fault.Table() {
		require.NotContains(t, rows, row.Reason)
		rows[row.Reason] = row
		require.NotEqual(t, codes.OK, row.Code, row.Reason)
		require.GreaterOrEqual(t, row.HTTP, http.StatusBadRequest, row.Reason)
		require.NotEmpty(t, row.Title, row.Reason)
		require.NotEmpty(t, row.Retry, row.Reason)
		require.NotEmpty(t, row.Doc, row.Reason)
		require.LessOrEqual(t, len(fault.Name(row.Reason)), 63)
		require.Equal(t, row, fault.Lookup(row.Reason))
	}
	for number := range faultv1.ErrorReason_name {
		if reason := faultv1.ErrorReason(number); reason != faultv1.ErrorReason_ERROR_REASON_UNSPECIFIED {
			require.Contains(t, rows, reason, "the reason has no row in table.go")
		}
	}
	unknown := fault.Lookup(faultv1.ErrorReason(9999))
	require.Equal(t, faultv1.ErrorReason_ERROR_REASON_INTERNAL, unknown.Reason)
}

func TestReferencePage(t *testing.T) {
	t.Parallel()
	golden.Assert(t, "../../../docs/reference/errors.md", referencePage())
}

func referencePage() []byte {
	var page bytes.Buffer
	page.WriteString(`# Errors

<!-- Made from services/internal/fault/table.go: go test ./internal/fault -update -->

Every refused call names a reason. It never changes its meaning. In gRPC it is the ` + "`reason`" + ` of the
` + "`google.rpc.ErrorInfo`" + ` detail (domain ` + "`" + fault.Domain + "`" + `); in REST it is the member ` + "`reason`" + ` of the problem+json body. Why a *run*
failed is part of the run, not an error of a call.

| reason | gRPC code | HTTP | what it means | repeat the call? |
| --- | --- | --- | --- | --- |
`)
	for _, row := range fault.Table() {
		fmt.Fprintf(&page, "| `%s` | `%s` | %d | %s | %s |\n",
			fault.Name(row.Reason), fault.CodeName(row.Code), row.HTTP, row.Doc, row.Retry)
	}
	return page.Bytes()
}
