package store

import (
	"embed"
	"io/fs"

	"pawl.internal/services/internal/pg"
)

//go:embed migration/*.sql
var migrations embed.FS

// Schema returns the PostgreSQL schema that the orchestrator owns.
func Schema() pg.Schema {
	files, err := fs.Sub(migrations, "migration")
	if err != nil {
		panic("embedded migrations: " + err.Error()) // the name is a constant: it cannot be invalid
	}
	return pg.Schema{Name: "core", Files: files}
}
