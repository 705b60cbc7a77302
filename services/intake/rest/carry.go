package rest

import (
	"strings"

	"google.golang.org/genproto/googleapis/rpc/status"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"pawl.internal/services/internal/fault"
)

// carriedMark begins the text of a carried fault; no message of ours begins so.
const carriedMark = "\x00fault\x00"

// carried is a fault on its way through generated code that keeps nothing of an error but its text: so the text is the
// whole fault.
type carried struct{ fault *fault.Error }

// carry wraps the error of a body or query for the way through generated code.
func carry(err error) error {
	if err == nil {
		return nil
	}
	return carried{fault.Of(err)}
}

// Error returns the fault in encoded form; only faultOf reads it.
func (c carried) Error() string {
	encoded, err := proto.Marshal(c.fault.GRPCStatus().Proto())
	if err != nil { // a status of ours always encodes
		return c.fault.Error()
	}
	return carriedMark + string(encoded)
}

// faultOf returns the fault of any error that the gateway reports: carried, from the server, or made by the gateway.
func faultOf(err error) *fault.Error {
	f := fault.FromStatus(err)
	encoded, isCarried := strings.CutPrefix(f.Message, carriedMark)
	if !isCarried {
		return f
	}
	var original status.Status
	if proto.Unmarshal([]byte(encoded), &original) != nil {
		return fault.Internal(err)
	}
	return fault.FromStatus(grpcstatus.ErrorProto(&original))
}
