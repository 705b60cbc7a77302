package step

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	systemv1 "pawl.internal/gen/pawl/system/v1"
)

// Digest is a SHA-256 over parts. Each stands with its length, so that no two lists of parts run into the same bytes.
type Digest struct{ sum hash.Hash }

// NewDigest returns the digest of nothing yet.
func NewDigest() Digest { return Digest{sum: sha256.New()} }

// Add adds a part.
func (d Digest) Add(part []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	d.sum.Write(size[:]) // a hash never fails
	d.sum.Write(part)
}

// Sum returns the digest, 32 bytes.
func (d Digest) Sum() []byte { return d.sum.Sum(nil) }

// DigestOf is the digest of the data that a step was given: input, outputs by name, and item.
func DigestOf(a *systemv1.Assignment) []byte {
	digest := NewDigest()
	digest.Add(a.Input)
	outputs := a.GetOutputs()
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		digest.Add([]byte(name))
		digest.Add(outputs[name])
	}
	digest.Add(a.Item)
	return digest.Sum()
}
