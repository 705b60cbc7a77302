package store

import "slices"

// Role is what the holder of an API key may do. Each role may do all that the ones before it may.
type Role string

// The roles, from the least to the most.
const (
	// RoleViewer reads.
	RoleViewer Role = "viewer"
	// RoleClient also submits, and stops what was submitted.
	RoleClient Role = "client"
	// RoleOperator also repeats what failed and changes pipelines.
	RoleOperator Role = "operator"
	// RoleAdmin also manages keys.
	RoleAdmin Role = "admin"
)

// Roles lists the roles from the least to the most.
func Roles() []Role { return []Role{RoleViewer, RoleClient, RoleOperator, RoleAdmin} }

// Allows reports whether a holder of r may do what needs the role needed. A role that this build does not know allows
// nothing, and what needs such a role nobody may do.
func (r Role) Allows(needed Role) bool {
	have, need := slices.Index(Roles(), r), slices.Index(Roles(), needed)
	return need >= 0 && have >= need
}
