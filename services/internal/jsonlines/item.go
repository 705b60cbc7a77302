package jsonlines

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/apijson"
	"pawl.internal/services/internal/fault"
)

// longestReason is how long the reason why a line is no item may be, in bytes.
const longestReason = 2000

// Item reads a line, of at most limit bytes, as an item of a batch. A line that is none becomes a part that says so: which items
// are good enough is the server's to decide.
func Item(line Line, limit int) *pawlv1.UploadBatchRequest {
	part := &pawlv1.UploadBatchRequest{Index: proto.Int32(int32(line.Number - 1))}
	item := &pawlv1.BatchItem{}
	var err error
	if line.TooLong {
		err = fault.New(faultv1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE, "line %d has more than the %d bytes allowed for an item",
			line.Number, limit)
	} else {
		err = apijson.Unmarshal(line.Text, item)
	}
	if err == nil {
		part.Part = &pawlv1.UploadBatchRequest_Item{Item: item}
		return part
	}
	part.Part = &pawlv1.UploadBatchRequest_Unreadable{Unreadable: unreadable(line.Number, err)}
	return part
}

// unreadable says why a line is no item; places in the line become places in the upload.
func unreadable(number int, err error) *pawlv1.UnreadableItem {
	f := fault.Of(err)
	text := f.Message
	if len(f.Violations) > 0 {
		texts := make([]string, len(f.Violations))
		for i, v := range f.Violations {
			texts[i] = strings.TrimPrefix(v.Field+": "+v.Message, ": ")
		}
		text = strings.Join(texts, "; ")
	}
	text = strings.ReplaceAll(text, "line 1, column", fmt.Sprintf("line %d, column", number))
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "")
	}
	return &pawlv1.UnreadableItem{Reason: strings.ToLower(fault.Name(f.Reason)), Error: text}
}
