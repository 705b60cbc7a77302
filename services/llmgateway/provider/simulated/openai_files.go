package simulated

import (
	"io"
	"net/http"
)

// maxUpload bounds a file.
const maxUpload = 512 << 20

// registerFiles serves OpenAI's files.
func (p *Provider) registerFiles() {
	o := openAI{p.clock.Now}
	p.handle("POST /v1/files", "files.create", o, p.upload)
	p.handle("GET /v1/files", "files.list", o, func(w http.ResponseWriter, r *http.Request) *failure {
		id := func(f *file) string { return f.ID }
		part, bad := cutPage(r, p.files.newest(), "after", id)
		if bad == nil {
			writeJSON(w, http.StatusOK, openAIList(part, id))
		}
		return bad
	})
	p.handle("GET /v1/files/{id}", "files.get", o, p.withFile(func(w http.ResponseWriter, f *file) {
		writeJSON(w, http.StatusOK, f)
	}))
	p.handle("GET /v1/files/{id}/content", "files.content", o, p.withFile(func(w http.ResponseWriter, f *file) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(f.content) // a caller that is gone does not read it
	}))
	p.handle("DELETE /v1/files/{id}", "files.delete", o, p.withFile(func(w http.ResponseWriter, f *file) {
		p.files.remove(f.ID)
		writeJSON(w, http.StatusOK, map[string]any{"id": f.ID, "object": "file", "deleted": true})
	}))
}

// openAIList is a page as OpenAI writes it.
func openAIList[T any](p page[T], id func(T) string) map[string]any {
	first, last := p.ends(id)
	return map[string]any{"object": "list", "data": p.entries, "has_more": p.more, "first_id": first, "last_id": last}
}

func (p *Provider) withFile(use func(http.ResponseWriter, *file)) func(http.ResponseWriter, *http.Request) *failure {
	return func(w http.ResponseWriter, r *http.Request) *failure {
		f := p.files.get(r.PathValue("id"))
		if f == nil {
			return missing("file", r.PathValue("id"))
		}
		use(w, f)
		return nil
	}
}

// upload keeps a file that comes as a form of several parts.
func (p *Provider) upload(w http.ResponseWriter, r *http.Request) *failure {
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	parts, err := r.MultipartReader()
	if err != nil {
		return invalid("file", "a file is uploaded as multipart/form-data: "+err.Error())
	}
	var purpose, name string
	var content []byte
	for {
		part, err := parts.NextPart()
		if err == io.EOF { //nolint:errorlint // NextPart says that it returns it as it is
			break
		}
		if err != nil {
			return invalid("file", "the form could not be read: "+err.Error())
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return invalid("file", "the form could not be read: "+err.Error())
		}
		switch part.FormName() {
		case "purpose":
			purpose = string(data)
		case "file":
			name, content = part.FileName(), data
		}
	}
	if purpose == "" || content == nil {
		return invalid("file", "a form with the fields purpose and file is needed, and the file must not be empty")
	}
	f, bad := p.files.add(name, purpose, content, p.clock.Now())
	if bad == nil {
		writeJSON(w, http.StatusOK, f)
	}
	return bad
}
