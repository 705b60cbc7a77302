package compat

import (
	"net/http"
	"net/url"
	"strings"
)

// The paths. They are the labels of metrics too, so that there are few.
const (
	pathChat       = "/v1/chat/completions"
	pathEmbeddings = "/v1/embeddings"
	pathModels     = "/v1/models"
	pathModel      = "/v1/models/{model}"
	pathHealth     = "/healthz"
	// pathOther stands for all others.
	pathOther = "other"
)

// route is what a path leads to.
type route struct {
	path, method string
	serve        func(http.ResponseWriter, *http.Request) error
}

// route finds what a path leads to. (http.ServeMux would redirect paths that it finds untidy, and names of models may have
// slashes.)
func (e *endpoint) route(path string) (route, bool) {
	switch path {
	case pathChat:
		return route{pathChat, http.MethodPost, e.chat}, true
	case pathEmbeddings:
		return route{pathEmbeddings, http.MethodPost, e.embeddings}, true
	case pathModels:
		return route{pathModels, http.MethodGet, e.listModels}, true
	case "/livez", "/readyz", "/healthz":
		return route{pathHealth, http.MethodGet, e.health}, true
	}
	if name, ok := strings.CutPrefix(path, pathModels+"/"); ok && name != "" {
		return route{pathModel, http.MethodGet, e.getModel}, true
	}
	return route{path: pathOther}, false
}

// dispatch serves a request; whatever it cannot serve it answers in OpenAI's form.
func (e *endpoint) dispatch(w http.ResponseWriter, r *http.Request) {
	to, ok := e.route(r.URL.Path)
	x := exchangeOf(r.Context())
	x.path = to.path
	var err error
	switch {
	case !ok:
		err = &problem{
			status: http.StatusNotFound, kind: kindInvalid, code: "unknown_url",
			message: "there is no " + r.Method + " " + (&url.URL{Path: r.URL.Path}).EscapedPath() + ": this endpoint has " +
				strings.Join([]string{pathChat, pathEmbeddings, pathModels}, ", "),
		}
	case r.Method != to.method && (r.Method != http.MethodHead || to.method != http.MethodGet):
		w.Header().Set("Allow", to.method)
		err = &problem{
			status: http.StatusMethodNotAllowed, kind: kindInvalid, code: "method_not_allowed",
			message: r.Method + " is not a method of " + to.path + ": use " + to.method,
		}
	default:
		err = to.serve(w, r)
	}
	if err != nil {
		x.err = err
	}
	if err != nil && !isGone(err) {
		writeProblem(w, problemOf(err))
	}
}

func (e *endpoint) health(w http.ResponseWriter, r *http.Request) error {
	e.Admin.ServeHTTP(w, r)
	return nil
}
