// Package canon reads JSON strictly and writes it canonically, so that equal values always have equal bytes: what is
// hashed, compared or sent again must not depend on who wrote it.
//
// The form is that of RFC 8785 (no white space, keys in UTF-16 order, shortest escapes, numbers as JavaScript writes
// them) with one difference: RFC 8785 rounds every number to a float64, and Pawl does not. A contract number of twenty
// digits stays what it is, because numbers are rewritten as decimals and never computed with. For numbers that a float64
// holds, the two forms are the same.
//
// The functions are pure and safe for concurrent use.
package canon
