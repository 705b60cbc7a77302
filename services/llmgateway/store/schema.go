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

// Settings are the session settings that the store's statements count on. They all go by key, while tables swing between
// empty and large: a plan that was made for an empty table and reads all of it must never be kept. Their plans do not
// depend on the parameters, so they are made once.
func Settings() map[string]string {
	return map[string]string{
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
		"plan_cache_mode": "force_generic_plan", "jit": "off",
	}
}
