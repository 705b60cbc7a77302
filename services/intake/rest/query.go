package rest

import (
	"maps"
	"net/url"
	"slices"

	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"pawl.internal/services/internal/apijson"
)

// queryParser reads query parameters in the same words as bodies.
type queryParser struct{}

// Parse sets the fields that the query names; those in the path are set already and cannot be given again.
func (queryParser) Parse(m proto.Message, values url.Values, inPath *utilities.DoubleArray) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if inPath.HasCommonPrefix([]string{name}) {
			continue
		}
		if err := apijson.SetParameter(m, name, values[name]); err != nil {
			return carry(err)
		}
	}
	return nil
}
