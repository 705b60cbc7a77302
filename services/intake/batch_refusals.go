package intake

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	"pawl.internal/services/internal/fault"
)

const (
	// itemsField is where callers find a batch's items.
	itemsField = "items"
	// maxProblems is how many invalid items are told of in an error.
	maxProblems = 100
	// maxRefusalBytes bounds what is kept of why an item was refused.
	maxRefusalBytes = 2000
)

// refusal is why an item is invalid.
type refusal struct {
	// reason is a reason code in lower case, as the results of items have it.
	reason     string
	violations []fault.Violation
}

func refusalOf(err error) *refusal {
	f := fault.Of(err)
	r := &refusal{strings.ToLower(fault.Name(f.Reason)), f.Violations}
	if len(r.violations) == 0 {
		r.violations = []fault.Violation{{Message: f.Message}}
	}
	return r
}

// note makes of an item the note that it was refused.
func (r *refusal) note(item *systemv1.AddBatchItemsRequest_Item) *systemv1.AddBatchItemsRequest_Item {
	return &systemv1.AddBatchItemsRequest_Item{
		Index: item.GetIndex(), CustomId: storable(item.GetCustomId()), EntityId: storable(item.GetEntityId()),
		RejectedReason: r.reason, RejectedError: r.words(),
	}
}

// storable is a text of a refused item as PostgreSQL can keep it: what is wrong with the item may be this very text.
func storable(text string) string {
	return cut(strings.ReplaceAll(text, "\x00", "\ufffd"), maxRefusalBytes)
}

func (r *refusal) words() string {
	texts := make([]string, len(r.violations))
	for i, v := range r.violations {
		texts[i] = strings.TrimPrefix(v.Field+": "+v.Message, ": ")
	}
	return storable(strings.Join(texts, "; "))
}

// cut shortens a text to at most so many bytes, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// problems collects what is wrong with the items of a batch of which nothing is to be made.
type problems struct {
	items, invalid int
	violations     []fault.Violation
}

// add counts an item, and remembers why it is invalid unless that is nil.
func (p *problems) add(index int32, r *refusal) {
	p.items++
	if r == nil {
		return
	}
	p.invalid++
	for _, v := range r.violations {
		if len(p.violations) == maxProblems {
			return
		}
		field := fmt.Sprintf("%s[%d]", itemsField, index)
		if v.Field != "" {
			field += "." + v.Field
		}
		p.violations = append(p.violations, fault.Violation{Field: field, Message: r.reason + ": " + v.Message})
	}
}

// fault refuses the batch, if it must be.
func (p *problems) fault() error {
	switch {
	case p.items == 0:
		return errNoItems()
	case p.invalid == 0:
		return nil
	}
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_BATCH_INVALID, p.violations...).
		WithMeta("items", strconv.Itoa(p.items)).WithMeta("invalid_items", strconv.Itoa(p.invalid))
}
