package expr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"

	"pawl.internal/services/internal/suggest"
)

// EvalError says why an expression has no value for the data at hand.
type EvalError struct {
	// Source is the expression.
	Source string
	// Message says what is wrong.
	Message string
}

// Error gives the message with the expression.
func (e *EvalError) Error() string { return "${" + e.Source + "}: " + e.Message }

// Error is one mistake in an expression or a template.
type Error struct {
	// Offset is the position in the text, in bytes from 0.
	Offset int
	// Message says what is wrong, and what would be right.
	Message string
}

// Errors are all the mistakes that were found; never empty.
type Errors []Error

// Error gives the messages, one a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = fmt.Sprintf("offset %d: %s", one.Offset, one.Message)
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Error) int { return a.Offset - b.Offset })
	return e
}

func (e *Env) fromIssues(source string, issues *cel.Issues, names Names) Errors {
	if issues.Err() == nil {
		return nil
	}
	list := make(Errors, 0, len(issues.Errors()))
	for _, issue := range issues.Errors() {
		message := plainMessage(issue.Message)
		if name := undeclared.FindStringSubmatch(message); name != nil {
			message = e.unknown(name[1], names)
		}
		list = append(list, Error{Offset: byteOffset(source, issue.Location), Message: message})
	}
	if len(list) == 0 {
		list = Errors{{Message: plainMessage(issues.Err().Error())}}
	}
	return list
}

// unknown says what is wrong with a name that is neither a variable nor a function.
func (e *Env) unknown(name string, names Names) string {
	if _, isStep := names.Steps[name]; isStep {
		return fmt.Sprintf("there is no %q here; write steps.%s.output for the output of that step", name, name)
	}
	known := slices.AppendSeq([]string{nameInput, nameSteps, nameRun, nameItem, nameIndex, nameOutput}, maps.Keys(e.cel.Functions()))
	hint := suggest.DidYouMean(name, slices.Values(known))
	if hint == "" {
		hint = "; an expression sees input, steps.<name>.output and run"
	}
	return fmt.Sprintf("there is no %q here%s", name, hint)
}

// byteOffset turns a line (from 1) and a column (from 0, in characters) into an offset.
func byteOffset(source string, at common.Location) int {
	offset := 0
	for range at.Line() - 1 {
		offset += strings.IndexByte(source[offset:], '\n') + 1
	}
	return offset + runesToBytes(source[offset:], at.Column())
}

// runesToBytes gives the length in bytes of the first n characters.
func runesToBytes(s string, n int) int {
	length := 0
	for ; n > 0 && length < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[length:])
		length += size
	}
	return length
}

// What CEL says, in the parts that people who do not know how CEL is built cannot be expected to read.
var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	noOverload = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	wrongTypes = regexp.MustCompile(`^no such overload(: )?`)
	expecting  = regexp.MustCompile(` expecting \{.*\}$`)
	wrapper    = regexp.MustCompile(`wrapper\((\w+)\)`)
)

// plainMessage rewords what CEL says.
func plainMessage(message string) string {
	message = strings.TrimPrefix(message, "Syntax error: ")
	message = wrapper.ReplaceAllString(expecting.ReplaceAllString(message, ""), "$1")
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s does not go with %s", symbol(m[1]), m[2])
	}
	for _, known := range []struct{ prefix, plain string }{
		{"mismatched input '<EOF>'", "the expression ends too early"},
		{"no such key: ", "there is no field "},
		{"operation cancelled: actual cost limit exceeded", "the expression costs too much to evaluate"},
	} {
		if rest, found := strings.CutPrefix(message, known.prefix); found {
			return known.plain + rest
		}
	}
	if wrongTypes.MatchString(message) {
		return "wrong types for " + symbol(wrongTypes.ReplaceAllString(message, ""))
	}
	return message
}

// symbol gives an operator as it is written: CEL calls + "_+_".
func symbol(function string) string {
	if plain := strings.ReplaceAll(function, "_", ""); plain != "" && !isNameRune(rune(plain[0])) {
		return plain
	}
	return function
}
