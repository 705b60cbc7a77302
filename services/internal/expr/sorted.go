package expr

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"pawl.internal/services/internal/canon"
)

// sorted makes a map iterate in key order, and leaves lists alone. Go iterates its maps in random order, and CEL with it.
func sorted(value ref.Val) ref.Val {
	if m, ok := value.(traits.Mapper); ok {
		return newSortedMap(m)
	}
	return value
}

// sortedMap is a map that iterates in key order. It must not be Foldable, or CEL would not ask for the iterator.
type sortedMap struct {
	traits.Mapper
	keys []ref.Val
}

func newSortedMap(m traits.Mapper) sortedMap {
	var keys []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return sortedMap{m, keys}
}

// Iterator gives the keys in order.
func (m sortedMap) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, m.keys).Iterator()
}

// compareKeys orders strings as JSON objects are written, and keys of different types by the type's name.
func compareKeys(a, b ref.Val) int {
	if order := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); order != 0 {
		return order
	}
	switch a := a.(type) {
	case types.String:
		other, _ := b.(types.String)
		return canon.CompareKeys(string(a), string(other))
	case traits.Comparer:
		order, _ := a.Compare(b).(types.Int)
		return int(order)
	default:
		return 0
	}
}
