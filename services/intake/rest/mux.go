package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	faultv1 "pawl.internal/gen/pawl/fault/v1"
	"pawl.internal/services/internal/fault"
)

func (a *api) muxOptions() []runtime.ServeMuxOption {
	installQueryParser()
	options := []runtime.ServeMuxOption{
		runtime.WithMarshalerOption(runtime.MIMEWildcard, jsonBody{}),
		runtime.WithIncomingHeaderMatcher(incomingHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithErrorHandler(a.handleError),
		runtime.WithRoutingErrorHandler(a.handleRouting),
		runtime.WithForwardResponseOption(describeAnswer),
		runtime.WithMiddlewares(a.prepare),
		runtime.WithWriteContentLength(),
		// A body sent by a form or under another method is not what its caller meant.
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
	}
	for _, mediaType := range textTypes() {
		options = append(options, runtime.WithMarshalerOption(mediaType, textBody{mediaType: mediaType}))
	}
	for _, mediaType := range yamlTypes() {
		options = append(options, runtime.WithMarshalerOption(mediaType, yamlBody{}))
	}
	return options
}

// installQueryParser replaces grpc-gateway's parser, which it keeps in a variable of the package: once, before anything is
// served.
//
//nolint:gochecknoglobals // see above
var installQueryParser = sync.OnceFunc(func() {
	runtime.NewServeMux(runtime.SetQueryParameterParser(queryParser{}))
})

// incomingHeader lets through what the handlers want to know. Authorization always passes.
func incomingHeader(key string) (string, bool) {
	switch textproto.CanonicalMIMEHeaderKey(key) {
	case "Idempotency-Key", "X-Api-Key", "Traceparent", "Tracestate", "If-Match", "Last-Event-Id":
		return strings.ToLower(key), true
	default:
		return "", false // the request's id is handed on by its context
	}
}

// noHeader keeps gRPC's headers inside: what callers should see is set by name.
func noHeader(string) (string, bool) { return "", false }

// prepare bounds a call in time and size, and looks at the type of its body. Its route is known.
func (a *api) prepare(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, parameters map[string]string) {
		exchangeOf(r.Context()).route = routeName(r.Context())
		if slices.Contains(slices.Collect(maps.Values(parameters)), "") {
			a.handleRouting(r.Context(), a.mux, nil, w, r, http.StatusNotFound)
			return
		}
		if err := errors.Join(checkPath(parameters), a.checkQuery(r)); err != nil {
			a.handleError(r.Context(), a.mux, nil, w, r, fault.Of(err))
			return
		}
		upload := isUpload(r)
		if err := checkContentType(r, upload); err != nil {
			a.handleError(r.Context(), a.mux, nil, w, r, err)
			return
		}
		if isUnbounded(r) {
			next(w, r, parameters)
			return
		}
		limit := a.limitOf(r, upload)
		if r.ContentLength > limit {
			// A caller that is still sending would lose the answer with a connection that is closed under it.
			_, _ = io.CopyN(io.Discard, r.Body, 2*limit)
			a.handleError(r.Context(), a.mux, nil, w, r, errBodyTooLarge(limit))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		if !isWatch(r) {
			ctx, cancel := context.WithTimeout(r.Context(), a.Timeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next(w, r, parameters)
	}
}

// limitOf is how many bytes a body may have.
func (a *api) limitOf(r *http.Request, upload bool) int64 {
	switch {
	case upload:
		return int64(a.MaxDocumentBytes)
	case r.Method == http.MethodPost && r.URL.Path == "/v1/batches":
		return int64(a.MaxBatchBytes)
	default:
		return int64(a.MaxBodyBytes)
	}
}

// isUnbounded reports whether a call has limits of its own on its pieces instead of one on the whole.
func isUnbounded(r *http.Request) bool {
	return r.URL.Path == uploadPath || strings.HasPrefix(r.URL.Path, "/v1/batches/") && strings.HasSuffix(r.URL.Path, "/results")
}

// routeName is the pattern that the path matched.
func routeName(ctx context.Context) string {
	pattern, _ := runtime.HTTPPattern(ctx)
	return strings.ReplaceAll(pattern.String(), "=*", "")
}

func isUpload(r *http.Request) bool {
	return r.Method == http.MethodPost && (r.URL.Path == "/v1/documents" || r.URL.Path == "/documents")
}

func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ":watch")
}

// checkPath refuses what no message can carry.
func checkPath(parameters map[string]string) error {
	for name, value := range parameters {
		if !utf8.ValidString(value) {
			return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
				fault.Violation{Field: name, Message: fmt.Sprintf("must be a text in UTF-8, not %q", value)})
		}
	}
	return nil
}

// checkQuery refuses parameters where there are none; elsewhere queryParser knows which there are.
func (a *api) checkQuery(r *http.Request) error {
	if r.URL.RawQuery == "" || a.routes.takesQuery(r.Method, r.URL.Path) {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT,
			fault.Violation{Field: "query", Message: "cannot be read: " + err.Error()})
	}
	var unknown []fault.Violation
	for _, name := range slices.Sorted(maps.Keys(values)) {
		unknown = append(unknown, fault.Violation{Field: name, Message: "is not a parameter here; this call has none in its query"})
	}
	return fault.Invalid(faultv1.ErrorReason_ERROR_REASON_INVALID_ARGUMENT, unknown...)
}

// checkContentType refuses bodies that nothing here can read. A body of an unknown type is taken for JSON, except where
// documents are uploaded: there it is a document that cannot be read.
func checkContentType(r *http.Request, upload bool) error {
	header := r.Header.Get("Content-Type")
	if header == "" || r.Method == http.MethodGet {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(header)
	if err != nil {
		return errMediaType("the Content-Type %q cannot be read", header)
	}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return errMediaType("bodies are in UTF-8, not in %q", charset)
	}
	if upload && mediaType != contentJSON && !slices.Contains(textTypes(), mediaType) {
		return errMediaType("documents are text/plain or text/markdown, or JSON that contains one, not %q", mediaType)
	}
	return nil
}

func errMediaType(format string, args ...any) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_UNSUPPORTED_MEDIA_TYPE, format, args...)
}

func errBodyTooLarge(limit int64) error {
	return fault.New(faultv1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE, "the body is larger than the %d bytes allowed here", limit)
}
