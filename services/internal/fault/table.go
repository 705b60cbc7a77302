package fault

import (
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
)

// Retry is the advice to a caller on repeating the call.
type Retry string

// The advices. Every other wording of them is wrong.
const (
	// RetryNever: the same call will fail again; change it first.
	RetryNever Retry = "no: change the request"
	// RetryLater: the same call may succeed after a wait: RetryAfter if stated, else with backoff.
	RetryLater Retry = "yes, after the stated wait or with backoff"
	// RetryIdempotent: whether the call took effect is unknown; repeat it only with the same idempotency key.
	RetryIdempotent Retry = "only with the same idempotency key"
	// RetryAfterLook: the state changed or does not fit; read it again and decide.
	RetryAfterLook Retry = "no: read the current state first"
)

// StatusClientClosedRequest is what HTTP intermediaries log for a call that its caller gave up.
const StatusClientClosedRequest = 499

// Row is what follows from a reason.
type Row struct {
	Reason faultv1.ErrorReason
	Code   codes.Code
	// HTTP is the status of the problem+json answer.
	HTTP int
	// Title is the problem's title: the same words for every occurrence.
	Title string
	Retry Retry
	// Doc is the sentence of the reference page.
	Doc string
}

// Lookup returns the reason's row; that of INTERNAL for a number this build does not know.
func Lookup(reason faultv1.ErrorReason) Row {
	for _, row := range rows {
		if row.Reason == reason {
			return row
		}
	}
	return rows[0]
}

// Table returns all rows in the order of the reference page.
func Table() []Row { return slices.Clone(rows) }

// rows says everything that follows from a reason. INTERNAL stands first.
//
//nolint:gochecknoglobals // a constant table, written nowhere
var rows = []Row{
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_INTERNAL, Code: codes.Internal, HTTP: http.StatusInternalServerError,
		Title: "Internal error", Retry: RetryIdempotent,
		Doc: "A fault of the server's own; its log has the details under the request id.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE, Code: codes.Unavailable, HTTP: http.StatusServiceUnavailable,
		Title: "Service unavailable", Retry: RetryLater,
		Doc: "A store or service is away for the moment.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_CANCELLED, Code: codes.Canceled, HTTP: StatusClientClosedRequest,
		Title: "Call cancelled", Retry: RetryIdempotent,
		Doc: "The caller gave up before the answer was ready.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_DEADLINE_EXCEEDED, Code: codes.DeadlineExceeded, HTTP: http.StatusGatewayTimeout,
		Title: "Deadline exceeded", Retry: RetryIdempotent,
		Doc: "The time that the caller allowed ran out; the call may or may not have taken effect.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_DEADLINE_TOO_SHORT, Code: codes.DeadlineExceeded, HTTP: http.StatusGatewayTimeout,
		Title: "Deadline too short", Retry: RetryNever,
		Doc: "The time that the caller allows is too short to do anything; nothing was done. Allow more.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_ETAG_MISMATCH, Code: codes.Aborted, HTTP: http.StatusConflict,
		Title: "Changed meanwhile", Retry: RetryAfterLook,
		Doc: "The thing has changed since the caller saw the etag that it gave; nothing was done. The message says how it is now.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_CONFLICT, Code: codes.Aborted, HTTP: http.StatusConflict,
		Title: "Concurrent change", Retry: RetryLater,
		Doc: "Another change got in between; nothing was done.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED, Code: codes.ResourceExhausted, HTTP: http.StatusTooManyRequests,
		Title: "Too many requests", Retry: RetryLater,
		Doc: "The caller asks too fast, or has too much queued.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Invalid request", Retry: RetryNever,
		Doc: "The request breaks a rule of its schema; the violations name the fields.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_MALFORMED_BODY, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Malformed body", Retry: RetryNever,
		Doc: "The request's JSON could not be read; the message gives the position.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE, Code: codes.InvalidArgument, HTTP: http.StatusRequestEntityTooLarge,
		Title: "Body too large", Retry: RetryNever,
		Doc: "The body is larger than the endpoint allows.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_UNSUPPORTED_MEDIA_TYPE, Code: codes.InvalidArgument, HTTP: http.StatusUnsupportedMediaType,
		Title: "Unsupported media type", Retry: RetryNever,
		Doc: "The media type of the content is not supported; the message lists those that are.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_MISSING, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Idempotency key missing", Retry: RetryNever,
		Doc: "A call that creates something came without an Idempotency-Key.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED, Code: codes.FailedPrecondition, HTTP: http.StatusUnprocessableEntity,
		Title: "Idempotency key reused", Retry: RetryNever,
		Doc: "The Idempotency-Key was used before with another request.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Invalid page token", Retry: RetryNever,
		Doc: "The page token is malformed, expired, or belongs to a list with other filters; begin again without one.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED, Code: codes.Unauthenticated, HTTP: http.StatusUnauthorized,
		Title: "Not authenticated", Retry: RetryNever,
		Doc: "There is no API key, or it is unknown, expired or revoked.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, Code: codes.PermissionDenied, HTTP: http.StatusForbidden,
		Title: "Not permitted", Retry: RetryNever,
		Doc: "The API key's role does not allow the call.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_NO_SUCH_ENDPOINT, Code: codes.Unimplemented, HTTP: http.StatusNotFound,
		Title: "No such endpoint", Retry: RetryNever,
		Doc: "There is no such path or method.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_RUN_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Run not found", Retry: RetryNever,
		Doc: "There is no such run, or it belongs to another tenant.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_PIPELINE_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Pipeline not found", Retry: RetryNever,
		Doc: "There is no such pipeline, or not in that version.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_DOCUMENT_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Document not found", Retry: RetryNever,
		Doc: "There is no such document, it has expired, or it belongs to another tenant.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Job not found", Retry: RetryNever,
		Doc: "There is no such job, or it belongs to another tenant.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Model call not found", Retry: RetryNever,
		Doc: "The run has no such model call.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_TENANT_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Tenant not found", Retry: RetryNever,
		Doc: "There is no such tenant, or the caller may not see it.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_API_KEY_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "API key not found", Retry: RetryNever,
		Doc: "The tenant has no such API key, or the caller may not see it.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_BATCH_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Batch not found", Retry: RetryNever,
		Doc: "There is no such batch, or the caller may not see it.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_BATCH_INVALID, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Batch invalid", Retry: RetryNever,
		Doc: "Items of the batch are invalid, and nothing was made of any. The violations name each item's place and what is wrong with it; the mode skip_invalid makes the others.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_DUPLICATE_CUSTOM_ID, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Duplicate custom_id", Retry: RetryNever,
		Doc: "An item of a batch has the `custom_id`, or the idempotency key, of an item before it. Only items are refused so, as `duplicate_custom_id`.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND, Code: codes.NotFound, HTTP: http.StatusNotFound,
		Title: "Schedule not found", Retry: RetryNever,
		Doc: "There is no such schedule, or it belongs to another tenant.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_SCHEDULE_EXISTS, Code: codes.AlreadyExists, HTTP: http.StatusConflict,
		Title: "Schedule exists", Retry: RetryNever,
		Doc: "There is another schedule of that name; delete it first, or give this one another name.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_PIPELINE_INVALID, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Invalid pipeline", Retry: RetryNever,
		Doc: "The pipeline has errors; the violations give line and column.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_PIPELINE_EXISTS, Code: codes.AlreadyExists, HTTP: http.StatusConflict,
		Title: "Pipeline version exists", Retry: RetryNever,
		Doc: "That version of the pipeline is stored already with another content; give it a new version.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_INPUT_INVALID, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Invalid input", Retry: RetryNever,
		Doc: "The input breaks the pipeline's input schema; the violations name the paths.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_MODEL_UNKNOWN, Code: codes.InvalidArgument, HTTP: http.StatusBadRequest,
		Title: "Unknown model", Retry: RetryNever,
		Doc: "No route and no target has the model's name.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, Code: codes.AlreadyExists, HTTP: http.StatusConflict,
		Title: "Already exists", Retry: RetryAfterLook,
		Doc: "A thing with this identity exists already.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_WRONG_STATE, Code: codes.FailedPrecondition, HTTP: http.StatusConflict,
		Title: "Wrong state", Retry: RetryAfterLook,
		Doc: "The state of the run, batch or key does not allow the action.",
	},
	{
		Reason: faultv1.ErrorReason_ERROR_REASON_STALE_FENCE, Code: codes.FailedPrecondition, HTTP: http.StatusConflict,
		Title: "Claim no longer valid", Retry: RetryNever,
		Doc: "The worker's claim is not valid any more; its work belongs to another or has ended.",
	},
}
