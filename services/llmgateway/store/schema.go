package store

import (
	"embed"
	"io/fs"

	"pawl.internal/services/internal/pg"
)

//go:embed migration/*.sql
var migrations embed.FS

// schemaName is the PostgreSQL schema that the gateway owns.
const schemaName = "llm"

// Schema returns the PostgreSQL schema that the gateway owns.
func Schema() pg.Schema {
	files, err := fs.Sub(migrations, "migration")
	if err != nil {
		panic("embedded migrations: " + err.Error()) // the name is a constant: it cannot be invalid
	}
	return pg.Schema{Name: schemaName, Files: files}
}
