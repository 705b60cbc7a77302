package rpc

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ours is the prefix of the proto packages whose options decide on retries.
const ours = "pawl."

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

// serviceConfig tells gRPC to spread calls over all replicas, and to repeat those that may be repeated.
func serviceConfig() string {
	type object = map[string]any
	config := object{
		"loadBalancingConfig": []object{{"round_robin": object{}}},
		// Once a tenth of the calls or more fail, retries stop, so that they do not bury a server that struggles.
		"retryThrottling": object{"maxTokens": 100, "tokenRatio": 0.1},
	}
	if methods := repeatable(); len(methods) > 0 {
		config["methodConfig"] = []object{{
			"name": methods,
			"retryPolicy": object{
				"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 3,
				"retryableStatusCodes": []string{"UNAVAILABLE"},
			},
		}}
	}
	text, err := json.Marshal(config)
	if err != nil { // strings, numbers and maps of them always encode
		return "{}"
	}
	return string(text)
}

// repeatable lists the unary methods that this program knows and whose proto declares them idempotent.
func repeatable() []methodName {
	var names []methodName
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), ours) {
			names = append(names, repeatableIn(file)...)
		}
		return true
	})
	slices.SortFunc(names, func(a, b methodName) int {
		return strings.Compare(a.Service+"/"+a.Method, b.Service+"/"+b.Method)
	})
	return names
}

func repeatableIn(file protoreflect.FileDescriptor) []methodName {
	var names []methodName
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			if method := service.Methods().Get(j); isRepeatable(method) {
				names = append(names, methodName{Service: string(service.FullName()), Method: string(method.Name())})
			}
		}
	}
	return names
}

func isRepeatable(method protoreflect.MethodDescriptor) bool {
	options, ok := method.Options().(*descriptorpb.MethodOptions)
	unary := !method.IsStreamingClient() && !method.IsStreamingServer()
	return ok && unary && options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
