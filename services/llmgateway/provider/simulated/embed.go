package simulated

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"unicode"
)

// defaultDimensions is the length of a vector for which no other was asked; maxDimensions bounds it.
const (
	defaultDimensions = 1536
	maxDimensions     = 3072
)

// perWord is how many of a vector's members a word touches.
const perWord = 32

// vector returns a vector of length 1 for a text. It is a sum over the text's words, so that texts with words in common have
// vectors that are near.
func vector(text string, dimensions int) []float32 {
	sum := make([]float64, dimensions)
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range append(words, "") { // no text is without direction
		h := fnv.New64a()
		_, _ = h.Write([]byte(word)) // never fails
		drawn := rand.New(rand.NewPCG(h.Sum64(), 0))
		for range perWord {
			sum[drawn.IntN(dimensions)] += drawn.NormFloat64()
		}
	}
	square := 0.0
	for _, x := range sum {
		square += x * x
	}
	unit := make([]float32, dimensions)
	for i, x := range sum {
		unit[i] = float32(x / math.Sqrt(square))
	}
	return unit
}

// embed makes the vectors of a call's texts.
func (p *Provider) embed(c *call, a *answer) {
	a.vectors = make([][]float32, len(c.inputs))
	for i, text := range c.inputs {
		a.vectors[i] = vector(text, c.dimensions)
	}
}
