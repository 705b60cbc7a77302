package sdks

import (
	"context"
	_ "embed"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pawl.internal/e2e/harness"
)

// The libraries for Node.js.
const (
	openAINode    = "7.59.0"
	anthropicNode = "1.14.0"
)

//go:embed openai.mjs
var openAIScript string

//go:embed anthropic.mjs
var anthropicScript string

// nodeTime bounds a script.
const nodeTime = time.Minute

// CheckOpenAINode asks a server with OpenAI's library for Node.js: chats whole and streamed, structured output, and the errors
// that every server of this form has.
func CheckOpenAINode(t *testing.T, baseURL, key, model string) {
	t.Helper()
	runNode(t, openAIScript, baseURL, key, model, "ask")
}

// CheckOpenAINodeFaults asks the simulated provider for faults, and reads which errors the library makes of them.
func CheckOpenAINodeFaults(t *testing.T, baseURL, key, model string) {
	t.Helper()
	runNode(t, openAIScript, baseURL, key, model, "faults")
}

// CheckEndpointNode asks Pawl's own endpoint for what no other server has, with OpenAI's library for Node.js: answers that are
// replayed, and budgets. It may be asked once.
func CheckEndpointNode(t *testing.T, baseURL, key, model string) {
	t.Helper()
	runNode(t, openAIScript, baseURL, key, model, "endpoint")
}

// CheckAnthropicNode asks a server with Anthropic's library for Node.js: messages whole and streamed, structured output, tools,
// and the errors that every server of this form has.
func CheckAnthropicNode(t *testing.T, baseURL, key, model string) {
	t.Helper()
	runNode(t, anthropicScript, baseURL, key, model, "ask")
}

// CheckAnthropicNodeFaults asks the simulated provider for faults, and reads which errors the library makes of them.
func CheckAnthropicNodeFaults(t *testing.T, baseURL, key, model string) {
	t.Helper()
	runNode(t, anthropicScript, baseURL, key, model, "faults")
}

// runNode runs a script to its end. It says "all is well" last, or why not.
func runNode(t *testing.T, script, baseURL, key, model, part string) {
	t.Helper()
	folder := harness.InstallNPM(t, "sdks-openai-"+openAINode+"-anthropic-"+anthropicNode, "openai@"+openAINode, "@anthropic-ai/sdk@"+anthropicNode)
	ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", harness.WriteFile(t, "check.mjs", script), folder, baseURL, key, model, part)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.True(t, strings.HasSuffix(string(output), "all is well\n"), "%s", output)
}
