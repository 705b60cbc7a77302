package intake

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	systemv1 "pawl.internal/gen/pawl/system/v1"
	pawlv1 "pawl.internal/gen/pawl/v1"
	"pawl.internal/services/internal/fault"
	"pawl.internal/services/internal/rpc"
)

// prepare makes of a part what the orchestrator is told: a run to be made, or why there is none. The refusal is nil for a
// part that is valid. An error says nothing about the part: it could not be checked.
func (f *filling) prepare(
	ctx context.Context, names *names, part *pawlv1.UploadBatchRequest,
) (*systemv1.AddBatchItemsRequest_Item, *refusal, error) {
	item := part.GetItem()
	out := &systemv1.AddBatchItemsRequest_Item{Index: part.GetIndex(), CustomId: item.GetCustomId(), EntityId: item.GetEntityId()}
	if bad := part.GetUnreadable(); bad != nil {
		refusal := &refusal{bad.GetReason(), []fault.Violation{{Message: bad.GetError()}}}
		return refusal.note(out), refusal, nil
	}
	err := f.accept(ctx, names, item, out)
	switch code := fault.CodeOf(err); {
	case err == nil:
		return out, nil, nil
	case code != codes.InvalidArgument && code != codes.NotFound:
		return nil, nil, err
	}
	refusal := refusalOf(err)
	return refusal.note(out), refusal, nil
}

// accept checks an item and fills in what its run is made of.
func (f *filling) accept(
	ctx context.Context, names *names, item *pawlv1.BatchItem, out *systemv1.AddBatchItemsRequest_Item,
) error {
	if size := proto.Size(item); size > f.s.config.MaxBodyBytes {
		return errTooLarge("the item", size, f.s.config.MaxBodyBytes)
	}
	if err := rpc.Validate(f.s.validator, item); err != nil {
		return err
	}
	key, err := f.itemKey(names, out.GetIndex(), item)
	if err != nil {
		return err
	}
	if out.Input, err = f.inputOf(ctx, item, out); err != nil {
		return err
	}
	if err := f.pipeline.checkInput(out.GetInput()); err != nil {
		return err
	}
	if out.ConcurrencyKey, err = f.pipeline.concurrencyKey(out.GetInput()); err != nil {
		return err
	}
	digest, err := f.itemDigest(item)
	if err != nil {
		return err
	}
	out.Idempotency = &systemv1.Idempotency{Key: key, RequestDigest: digest}
	return nil
}

// inputOf returns the input of an item's run: its own, or its document's text.
func (f *filling) inputOf(ctx context.Context, item *pawlv1.BatchItem, out *systemv1.AddBatchItemsRequest_Item) ([]byte, error) {
	switch {
	case (item.GetInput() == nil) == (item.GetDocumentId() == ""):
		return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: inputField, Message: "exactly one of input and document_id must be given"})
	case item.GetInput() != nil:
		input := []byte(item.GetInput().GetJson())
		if !json.Valid(input) {
			return nil, fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				fault.Violation{Field: inputField, Message: "must be a JSON document"})
		}
		return input, nil
	}
	found, err := f.s.orchestrator.GetDocument(ctx, &systemv1.GetDocumentRequest{
		Tenant: f.who.tenant, DocumentId: item.GetDocumentId(), WithContent: true,
	})
	if fault.CodeOf(err) == codes.NotFound {
		return nil, fault.Of(err).WithViolations(fault.Violation{Field: "document_id", Message: "does not name a stored document"})
	}
	if err != nil {
		return nil, err
	}
	out.DocumentId = item.GetDocumentId()
	if out.GetEntityId() == "" {
		out.EntityId = found.GetDocument().GetExternalId()
	}
	input, err := textInput(found.GetContent())
	if err == nil && len(input) > maxInputBytes {
		err = errTooLarge("the document, written as JSON,", len(input), maxInputBytes)
	}
	return input, err
}

// itemKey returns the idempotency key of an item's run, and refuses names and keys that the batch has already.
func (f *filling) itemKey(names *names, index int32, item *pawlv1.BatchItem) (string, error) {
	name, field := item.GetCustomId(), "custom_id"
	if name == "" {
		name = strconv.Itoa(int(index))
	}
	if !names.take('n', name) {
		return "", errDuplicate(field, "is the custom_id, or the place, of an item before this one")
	}
	key := item.GetIdempotencyKey()
	if key == "" {
		key = f.composedKey(name)
	} else if field = keyField; !isKey(key) {
		return "", badKey("must be 1 to 255 printable ASCII characters")
	}
	if !names.take('k', key) {
		return "", errDuplicate(field, "is the idempotency key of an item before this one")
	}
	return key, nil
}

// composedKey is `<batch's key>/<name>`; a name that does not fit into a key is there by its hash.
func (f *filling) composedKey(name string) string {
	if key := f.key.GetKey() + "/" + name; isKey(key) {
		return key
	}
	sum := sha256.Sum256([]byte(name))
	return f.key.GetKey() + "/sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func errDuplicate(field, message string) error {
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_DUPLICATE_CUSTOM_ID, fault.Violation{Field: field, Message: message})
}

// itemDigest is the fingerprint of the request that would have made the item's run by itself.
func (f *filling) itemDigest(item *pawlv1.BatchItem) ([]byte, error) {
	if item.GetDocumentId() != "" {
		return fingerprint(pawlv1.DocumentService_ExtractDocument_FullMethodName, &pawlv1.ExtractDocumentRequest{
			DocumentId: item.GetDocumentId(), Pipeline: f.header.GetPipeline(), Class: batchClass(f.header.GetClass()),
			BudgetUsd: f.header.GetItemBudgetUsd(),
		})
	}
	return fingerprint(pawlv1.RunService_CreateRun_FullMethodName, &pawlv1.CreateRunRequest{
		Pipeline: f.header.GetPipeline(), Input: item.GetInput(), EntityId: item.GetEntityId(), Class: batchClass(f.header.GetClass()),
		Priority: f.header.GetPriority(), Labels: f.header.GetLabels(), BudgetUsd: f.header.GetItemBudgetUsd(),
	})
}

// batchDigest is the fingerprint of a batch: of its method and header, and of its items when they came with it.
func batchDigest(method string, header *pawlv1.BatchHeader, items []*pawlv1.BatchItem) ([]byte, error) {
	hash := sha256.New()
	hash.Write([]byte(method + "\n"))
	plain := proto.CloneOf(header)
	plain.IdempotencyKey = ""
	messages := make([]proto.Message, 1, 1+len(items))
	messages[0] = plain
	for _, item := range items {
		messages = append(messages, item)
	}
	for _, m := range messages {
		if item, ok := m.(*pawlv1.BatchItem); ok && item.GetInput() != nil {
			item = proto.CloneOf(item)
			item.Input.Json = canonical(item.GetInput().GetJson())
			m = item
		}
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return nil, fault.Internal(err)
		}
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
		hash.Write(text)
	}
	return hash.Sum(nil), nil
}

// names are the names and keys that a batch has had, as hashes: 100000 of them must not fill the memory.
type names struct{ seen map[[16]byte]struct{} }

func newNames() *names { return &names{seen: map[[16]byte]struct{}{}} }

// take reports whether the name is new among those of its kind.
func (n *names) take(kind byte, name string) bool {
	sum := sha256.Sum256(append([]byte{kind}, name...))
	short := [16]byte(sum[:16])
	if _, known := n.seen[short]; known {
		return false
	}
	n.seen[short] = struct{}{}
	return true
}
