package fault

import (
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
)

// Domain is the ErrorInfo.domain of every reason of this system.
const Domain = "pawl"

const reasonPrefix = "ERROR_REASON_"

// Name returns the reason as it travels: UPPER_SNAKE without the enum's prefix.
func Name(reason faultv1.ErrorReason) string {
	return strings.TrimPrefix(reason.String(), reasonPrefix)
}

// CodeName returns the canonical name of a gRPC code: "NOT_FOUND".
func CodeName(c codes.Code) string { return code.Code(c).String() }

// GRPCStatus returns what the caller sees: the message and the details, never the cause. The gRPC server calls it.
func (e *Error) GRPCStatus() *status.Status {
	plain := status.New(e.Code, e.Message)
	detailed, err := plain.WithDetails(e.details()...)
	if err != nil { // only when e.Code is OK, which no row of the table has
		return plain
	}
	return detailed
}

func (e *Error) details() []protoadapt.MessageV1 {
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Reason: Name(e.Reason), Domain: Domain, Metadata: e.Meta},
	}
	if len(e.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range e.Violations {
			bad.FieldViolations = append(bad.FieldViolations,
				&errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Message})
		}
		details = append(details, bad)
	}
	if len(e.Quotas) > 0 {
		exceeded := &errdetails.QuotaFailure{}
		for _, q := range e.Quotas {
			exceeded.Violations = append(exceeded.Violations,
				&errdetails.QuotaFailure_Violation{Subject: q.Subject, Description: q.Message, QuotaId: q.Policy})
		}
		details = append(details, exceeded)
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return details
}

// FromStatus returns the fault that a gRPC call's error carries. A status without our details, made by gRPC itself, keeps
// its code and gets the reason nearest to it. An error that is no status is treated as Of does. FromStatus(nil) is nil.
func FromStatus(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	said, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return Of(err)
	}
	st := said.GRPCStatus()
	e := &Error{Code: st.Code(), Reason: reasonOf(st.Code()), Message: st.Message()}
	for _, detail := range st.Details() {
		e.absorb(detail)
	}
	return e
}

func (e *Error) absorb(detail any) {
	switch d := detail.(type) {
	case *errdetails.ErrorInfo:
		if number, known := faultv1.ErrorReason_value[reasonPrefix+d.GetReason()]; known && d.GetDomain() == Domain {
			e.Reason, e.Meta = faultv1.ErrorReason(number), d.GetMetadata()
		}
	case *errdetails.BadRequest:
		for _, v := range d.GetFieldViolations() {
			e.Violations = append(e.Violations, Violation{Field: v.GetField(), Message: v.GetDescription()})
		}
	case *errdetails.QuotaFailure:
		for _, v := range d.GetViolations() {
			e.Quotas = append(e.Quotas, Quota{Policy: v.GetQuotaId(), Subject: v.GetSubject(), Message: v.GetDescription()})
		}
	case *errdetails.RetryInfo:
		e.RetryAfter = d.GetRetryDelay().AsDuration()
	}
}

// reasonOf is the reason for a status that carries none.
func reasonOf(c codes.Code) faultv1.ErrorReason {
	switch c {
	case codes.Canceled:
		return faultv1.ErrorReason_ERROR_REASON_CANCELLED
	case codes.DeadlineExceeded:
		return faultv1.ErrorReason_ERROR_REASON_DEADLINE_EXCEEDED
	case codes.InvalidArgument, codes.OutOfRange:
		return faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT
	case codes.Unauthenticated:
		return faultv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED
	case codes.PermissionDenied:
		return faultv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED
	case codes.Unimplemented:
		return faultv1.ErrorReason_ERROR_REASON_NO_SUCH_ENDPOINT
	case codes.ResourceExhausted:
		return faultv1.ErrorReason_ERROR_REASON_RATE_LIMITED
	case codes.Aborted:
		return faultv1.ErrorReason_ERROR_REASON_CONFLICT
	case codes.AlreadyExists:
		return faultv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS
	case codes.Unavailable:
		return faultv1.ErrorReason_ERROR_REASON_UNAVAILABLE
	default:
		return faultv1.ErrorReason_ERROR_REASON_INTERNAL
	}
}
