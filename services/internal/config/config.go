// Package config reads what a process is told at its start: flags, environment and a YAML file, which say the same things
// under the same names. Flags win over the environment, the environment over the file, the file over defaults.
package config
