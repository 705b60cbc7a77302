package simulated

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// maxBatchItems is how many requests a batch may have.
const maxBatchItems = 50_000

// batchLine is one request in a batch's input file.
type batchLine struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// endpoints are those that a batch may ask.
func endpoints() map[string]parser {
	return map[string]parser{"/v1/chat/completions": parseChat, "/v1/embeddings": parseEmbedding}
}

func sortedEndpoints() []string { return slices.Sorted(maps.Keys(endpoints())) }

// readLines reads a batch's input file.
func readLines(content []byte, endpoint string) (items []*batchItem, faults []lineFault) {
	seen := map[string]bool{}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		item, code, message := readLine(line, endpoint, seen)
		if code != "" {
			faults = append(faults, lineFault{Code: code, Message: message, Line: number})
			continue
		}
		items = append(items, item)
	}
	switch {
	case len(items)+len(faults) == 0:
		faults = append(faults, lineFault{Code: "empty_file", Message: "The input file has no requests.", Line: 1})
	case len(items) > maxBatchItems:
		faults = append(faults, lineFault{
			Code: "too_many_tasks", Message: fmt.Sprintf("The batch has %d requests, and may have %d.", len(items), maxBatchItems), Line: maxBatchItems + 1,
		})
	}
	return items, faults
}

// readLine reads one request; code says what is wrong, "" if nothing is.
func readLine(line []byte, endpoint string, seen map[string]bool) (item *batchItem, code, message string) {
	var l batchLine
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, "invalid_json_line", "This line is not parseable as valid JSON."
	}
	switch {
	case l.CustomID == "":
		return nil, "missing_required_parameter", "Missing required parameter: 'custom_id'."
	case seen[l.CustomID]:
		return nil, "duplicate_custom_id", fmt.Sprintf("The custom_id '%s' stands in the file twice.", l.CustomID)
	case l.Method != http.MethodPost:
		return nil, "invalid_method", "The method must be POST."
	case l.URL != endpoint:
		return nil, "mismatched_url", fmt.Sprintf("The URL '%s' is not the batch's endpoint '%s'.", l.URL, endpoint)
	}
	seen[l.CustomID] = true
	item = &batchItem{customID: l.CustomID, body: l.Body}
	item.question, item.bad = endpoints()[endpoint](nil, l.Body)
	return item, "", ""
}

// closeBatch writes the files that a batch of OpenAI's leaves behind.
func (p *Provider) closeBatch(b *batch) {
	if b.form != formOpenAI || b.stage == stageFailed {
		return
	}
	var output, errors []byte
	for i, item := range b.items {
		line := resultLine(b, i, item)
		if item.state == itemSucceeded {
			output = append(output, line...)
		} else {
			errors = append(errors, line...)
		}
	}
	keep := func(name string, content []byte) string {
		if len(content) == 0 {
			return ""
		}
		f, bad := p.files.add(b.id+"_"+name+".jsonl", "batch_output", content, p.clock.Now())
		if bad != nil {
			return ""
		}
		return f.ID
	}
	b.asked.outputFile, b.asked.errorFile = keep("output", output), keep("error", errors)
}

// resultLine is what became of one request.
func resultLine(b *batch, i int, item *batchItem) []byte {
	id := fmt.Sprintf("batch_req_%s_%d", b.id, i+1)
	line := map[string]any{"id": id, "custom_id": item.customID, "response": nil, "error": nil}
	switch item.state {
	case itemSucceeded, itemErrored:
		line["response"] = map[string]any{"status_code": item.status, "request_id": id, "body": json.RawMessage(item.result)}
	case itemExpired:
		line["error"] = map[string]string{
			"code": "batch_expired", "message": "This request could not be executed before the completion window expired.",
		}
	case itemCanceled, itemPending:
		line["error"] = map[string]string{"code": "batch_cancelled", "message": "This request was not executed before the batch was cancelled."}
	}
	return marshal(line)
}
