package compat

import (
	"net/http"
	"slices"
	"strings"
)

// model is a name that may be asked, as clients read it.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

func (e *endpoint) model(m Model) model {
	return model{ID: m.ID, Object: "model", Created: e.started.Unix(), OwnedBy: m.Owner}
}

// listModels lists the routes and the models of their targets.
func (e *endpoint) listModels(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.authenticate(r, mayRead); err != nil {
		return err
	}
	list := modelList{Object: "list", Data: []model{}}
	for _, m := range e.Gateway.Models() {
		list.Data = append(list.Data, e.model(m))
	}
	writeJSON(w, list)
	return nil
}

func (e *endpoint) getModel(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.authenticate(r, mayRead); err != nil {
		return err
	}
	name := strings.TrimPrefix(r.URL.Path, pathModels+"/")
	all := e.Gateway.Models()
	i := slices.IndexFunc(all, func(m Model) bool { return m.ID == name })
	if i < 0 {
		return noModel(name)
	}
	writeJSON(w, e.model(all[i]))
	return nil
}

// checkModel refuses a question to a model that does not exist, before anything else is done for it.
func (e *endpoint) checkModel(name string) error {
	if !e.Gateway.Knows(name) {
		return noModel(name)
	}
	return nil
}

func noModel(name string) *problem {
	return &problem{
		status: http.StatusNotFound, kind: kindInvalid, code: "model_not_found", param: "model",
		message: "there is no route or model \"" + name + "\": GET /v1/models lists those that there are",
	}
}
