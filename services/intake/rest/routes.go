package rest

import (
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "pawl.internal/gen/pawl/v1"
)

// routes are the paths of the API, by method. grpc-gateway has its own; it does not tell them.
type routes []route

type route struct {
	method string
	// path has literals and whole segments such as {run_id}, the last with a verb or without.
	path string
	// query says that there are parameters beside those of the path.
	query bool
}

// watchPaths are where a run can be watched; this package adds them to what the proto files say.
func watchPaths() []string { return []string{"/v1/runs/{run_id}:watch", "/runs/{run_id}:watch"} }

// uploadPath and resultsPath are the streams of batches, which the proto files do not have as REST either.
const (
	uploadPath  = "/v1/batches:upload"
	resultsPath = "/v1/batches/{batch_id}/results"
)

// allRoutes reads the HTTP rules of the proto files.
func allRoutes() routes {
	var all routes
	for _, file := range []protoreflect.FileDescriptor{
		pawlv1.File_pawl_v1_run_proto, pawlv1.File_pawl_v1_document_proto,
		pawlv1.File_pawl_v1_batch_proto, pawlv1.File_pawl_v1_schedule_proto,
		pawlv1.File_pawl_v1_job_proto, pawlv1.File_pawl_v1_pipeline_proto, pawlv1.File_pawl_v1_stats_proto,
		pawlv1.File_pawl_v1_tenant_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, routesOf(methods.Get(j))...)
			}
		}
	}
	for _, path := range watchPaths() {
		all = append(all, route{method: http.MethodGet, path: path})
	}
	return append(all, route{method: http.MethodPost, path: uploadPath, query: true},
		route{method: http.MethodGet, path: resultsPath, query: true})
}

func routesOf(method protoreflect.MethodDescriptor) routes {
	rule, isRule := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !isRule || rule == nil {
		return nil
	}
	var found routes
	for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		switch pattern := binding.GetPattern().(type) {
		case *annotations.HttpRule_Get:
			found = append(found, route{http.MethodGet, pattern.Get, hasParameters(method.Input(), pattern.Get)})
		case *annotations.HttpRule_Post:
			found = append(found, route{method: http.MethodPost, path: pattern.Post}) // all is in the body
		case *annotations.HttpRule_Put:
			found = append(found, route{method: http.MethodPut, path: pattern.Put})
		case *annotations.HttpRule_Patch:
			found = append(found, route{method: http.MethodPatch, path: pattern.Patch})
		}
	}
	return found
}

// hasParameters reports whether the request has fields that its path does not name.
func hasParameters(request protoreflect.MessageDescriptor, path string) bool {
	for i := range request.Fields().Len() {
		if !strings.Contains(path, "{"+string(request.Fields().Get(i).Name())+"}") {
			return true
		}
	}
	return false
}

// takesQuery reports whether the call has query parameters.
func (all routes) takesQuery(method, path string) bool {
	return slices.ContainsFunc(all, func(r route) bool { return r.method == method && r.query && r.matches(path) })
}

// methods lists the methods that a path has.
func (all routes) methods(path string) []string {
	var methods []string
	for _, r := range all {
		if r.matches(path) {
			methods = append(methods, r.method)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}

func (r route) matches(path string) bool {
	want, have := strings.Split(r.path, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, have, segmentMatches)
}

func segmentMatches(want, have string) bool {
	if !strings.HasPrefix(want, "{") {
		return want == have
	}
	_, verb, _ := strings.Cut(want, "}")
	return len(have) > len(verb) && strings.HasSuffix(have, verb)
}
