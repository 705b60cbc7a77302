package expr

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"pawl.internal/services/internal/canon"
)

// toCEL turns a JSON value of package canon into a value of CEL.
func toCEL(value any) ref.Val {
	switch v := value.(type) {
	case bool:
		return types.Bool(v)
	case string:
		return types.String(v)
	case json.Number:
		return numberToCEL(string(v))
	case []any:
		list := make([]ref.Val, len(v))
		for i, item := range v {
			list[i] = toCEL(item)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case map[string]any:
		object := make(map[string]ref.Val, len(v))
		for key, item := range v {
			object[key] = toCEL(item)
		}
		return types.NewMap(types.DefaultTypeAdapter, object)
	default:
		return types.NullValue
	}
}

// numberToCEL turns a canonical number into an int, else a double, as long as that changes nothing.
func numberToCEL(text string) ref.Val {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && canonical(f) == text {
		return types.Double(f)
	}
	return longNumber(text)
}

func canonical(f float64) string {
	text, _ := canon.Number(strconv.FormatFloat(f, 'g', -1, 64)) // fails for NaN and infinities only, which no text is
	return text
}

// toJSON turns a result of CEL into a JSON value of package canon. Timestamps and durations become text, bytes base64,
// an optional its value or null.
func toJSON(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case longNumber:
		return json.Number(v), nil
	case types.Double:
		return doubleToJSON(float64(v))
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp, types.Duration:
		return fmt.Sprint(v.ConvertToType(types.StringType).Value()), nil
	case *types.Optional:
		if v.HasValue() {
			return toJSON(v.GetValue())
		}
		return nil, nil
	case traits.Lister:
		return listToJSON(v)
	case traits.Mapper:
		return mapToJSON(v)
	default:
		return nil, fmt.Errorf("a %s has no JSON form", value.Type().TypeName())
	}
}

func doubleToJSON(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("the number %v has no JSON form", f)
	}
	return json.Number(canonical(f)), nil
}

func listToJSON(list traits.Lister) (any, error) {
	items := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		item, err := toJSON(it.Next())
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

func mapToJSON(m traits.Mapper) (any, error) {
	object := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map with a key of type %s has no JSON form: keys must be strings", key.Type().TypeName())
		}
		value, err := toJSON(m.Get(key))
		if err != nil {
			return nil, err
		}
		object[string(name)] = value
	}
	return object, nil
}

// asText renders a JSON value for a hole in a text: a string as it is, all else as canonical JSON.
func asText(value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	text, err := canon.Append(nil, value)
	return string(text), err
}

// describe names a JSON value's type.
func describe(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}

// longNumber is a number that neither an int64 nor a float64 holds exactly. It can be handed on and compared for
// equality, and nothing else.
type longNumber string

//nolint:gochecknoglobals // never changes; CEL tells types apart by identity
var longNumberType = types.NewOpaqueType("number")

// ConvertToNative is what CEL asks for to leave its own world, which never happens to a value of Pawl's.
func (n longNumber) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("the number %s cannot become a %s", string(n), to)
}

// ConvertToType gives the number's text, or its type.
func (n longNumber) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.StringType:
		return types.String(n)
	case types.TypeType:
		return longNumberType
	default:
		return types.NewErr("the number %s has too many digits for a %s", string(n), to.TypeName())
	}
}

// Equal compares canonical texts; a number that fits CEL's types is never equal to one that does not.
func (n longNumber) Equal(other ref.Val) ref.Val { return types.Bool(n == other) }

// Type is a type of its own.
func (n longNumber) Type() ref.Type { return longNumberType }

// Value is the number's text.
func (n longNumber) Value() any { return strings.Clone(string(n)) }
