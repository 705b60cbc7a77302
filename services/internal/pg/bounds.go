package pg

import (
	"bytes"

	"github.com/google/uuid"
)

// Bounds returns the least and the greatest of the ids, for statements over partitioned tables (ADR 8).
//
// A statement that joins a partitioned table to an array of ids opens every partition, although the ids of a group are nearly
// always of one day: the plan is made before the ids are known, and joins prune too late. With `BETWEEN @least_id AND @most_id`
// on the partition key the executor leaves out all other days before it opens anything.
func Bounds(ids ...uuid.UUID) (least, most uuid.UUID) {
	for i, id := range ids {
		if i == 0 || bytes.Compare(id[:], least[:]) < 0 {
			least = id
		}
		if bytes.Compare(id[:], most[:]) > 0 {
			most = id
		}
	}
	return least, most
}
