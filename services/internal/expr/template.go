package expr

import (
	"errors"
	"strings"
)

// Template is a string with expressions in `${…}`.
type Template struct {
	parts []part
}

// part is a text, or an expression where there is one.
type part struct {
	text string
	expr *Expr
}

// ParseTemplate compiles a template. The error is of type [Errors]; its offsets are in the template.
func (e *Env) ParseTemplate(source string, names Names) (*Template, error) {
	pieces, errs := split(source)
	t := &Template{}
	for _, p := range pieces {
		if !p.isExpr {
			t.parts = append(t.parts, part{text: p.text})
			continue
		}
		compiled, err := e.Compile(p.text, names)
		if err != nil {
			errs = append(errs, shift(err, p.offset)...)
			continue
		}
		t.parts = append(t.parts, part{expr: compiled})
	}
	if len(errs) > 0 {
		return nil, errs.sorted()
	}
	return t, nil
}

// shift moves the errors of an expression to where it stands in the template.
func shift(err error, offset int) Errors {
	errs, ok := errors.AsType[Errors](err)
	if !ok {
		return Errors{{Offset: offset, Message: err.Error()}}
	}
	for i := range errs {
		errs[i].Offset += offset
	}
	return errs
}

// Expr gives the template's expression when it is nothing but one, so that its value keeps its type; nil when it is text.
func (t *Template) Expr() *Expr {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

// Refs says what the template refers to.
func (t *Template) Refs() Refs {
	var refs Refs
	for _, p := range t.parts {
		if p.expr != nil {
			refs = refs.Union(p.expr.Refs())
		}
	}
	return refs
}

// Shape says what is known of the template's value.
func (t *Template) Shape() *Shape {
	if x := t.Expr(); x != nil {
		return x.Shape()
	}
	return &Shape{Kind: String}
}

// Value evaluates the template: to the expression's value when it is nothing but one, else to a text. The error is of
// type *[EvalError].
func (t *Template) Value(scope *Scope) (any, error) {
	if x := t.Expr(); x != nil {
		return x.Value(scope)
	}
	return t.Text(scope)
}

// Text evaluates the template to a text. In a text, strings stand as they are and all other values as canonical JSON.
// The error is of type *[EvalError].
func (t *Template) Text(scope *Scope) (string, error) {
	var text strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			text.WriteString(p.text)
			continue
		}
		value, err := p.expr.Value(scope)
		if err != nil {
			return "", err
		}
		hole, err := asText(value)
		if err != nil {
			return "", &EvalError{Source: p.expr.source, Message: err.Error()}
		}
		text.WriteString(hole)
	}
	return text.String(), nil
}

// piece is a text, or the source of an expression.
type piece struct {
	text   string
	isExpr bool
	// offset is where an expression begins, after its `${`.
	offset int
}

const (
	open    = "${"
	escaped = "$${"
)

// split takes a template apart. A text has its `$${` resolved.
func split(source string) (pieces []piece, errs Errors) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(source); {
		switch rest := source[i:]; {
		case strings.HasPrefix(rest, escaped):
			text.WriteString(open)
			i += len(escaped)
		case strings.HasPrefix(rest, open):
			flush()
			start := i + len(open)
			length := exprLength(source[start:])
			if length < 0 {
				return pieces, append(errs, Error{Offset: i, Message: "${ has no closing }; write $${ for a literal ${"})
			}
			if strings.TrimSpace(source[start:start+length]) == "" {
				errs = append(errs, Error{Offset: i, Message: "${} holds no expression"})
			} else {
				pieces = append(pieces, piece{text: source[start : start+length], isExpr: true, offset: start})
			}
			i = start + length + len("}")
		default:
			text.WriteByte(source[i])
			i++
		}
	}
	flush()
	return pieces, errs
}

// exprLength gives the length of the expression that source begins with, up to the } that closes it; -1 if none does.
// Braces inside strings, comments and map literals do not count.
func exprLength(source string) int {
	depth := 0
	for i := 0; i < len(source); {
		switch rest := source[i:]; {
		case rest[0] == '}' && depth == 0:
			return i
		case rest[0] == '}':
			depth--
			i++
		case rest[0] == '{':
			depth++
			i++
		case rest[0] == '"' || rest[0] == '\'':
			i += stringLength(rest, rawPrefix(source[:i]))
		case strings.HasPrefix(rest, "//"):
			i += lineLength(rest)
		default:
			i++
		}
	}
	return -1
}

// rawPrefix says whether the string that follows is a raw one: r'…'. The r must not be the end of a longer name.
func rawPrefix(before string) bool {
	name := before[len(strings.TrimRightFunc(before, isNameRune)):]
	return strings.ContainsAny(name, "rR") && len(name) <= 2
}

func isNameRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// stringLength gives the length of the string literal that source begins with; all of source if it has no end.
func stringLength(source string, raw bool) int {
	quote := source[:1]
	if strings.HasPrefix(source, strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i := len(quote); i < len(source); i++ {
		if source[i] == '\\' && !raw {
			i++
		} else if strings.HasPrefix(source[i:], quote) {
			return i + len(quote)
		}
	}
	return len(source)
}

func lineLength(source string) int {
	if end := strings.IndexByte(source, '\n'); end >= 0 {
		return end + 1
	}
	return len(source)
}
