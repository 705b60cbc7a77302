package redact

import (
	"regexp"
	"strings"
)

// keyForm is a form of keys that begin with a word of their own.
type keyForm struct {
	// prefix is what is looked for; form must match from there on, within window bytes. What follows the match and may belong
	// to the key, does.
	prefix string
	form   *regexp.Regexp
	// skip is how much of the match is no key, such as the word Bearer.
	skip *regexp.Regexp
}

// window is how much of a text a form may look at.
const window = 256

// The forms. Words that only look like keys have no digit: css-like sk-circle-fade-dot.
var (
	secretForm  = regexp.MustCompile(`^[a-z]+[-_][A-Za-z0-9_-]{16,}`)
	pawlForm    = regexp.MustCompile(`^pawl_[a-z0-9]{4,32}_[A-Za-z0-9]{16,}`)
	accessForm  = regexp.MustCompile(`^A[KS]IA[0-9A-Z]{16}`)
	googleForm  = regexp.MustCompile(`^AIza[0-9A-Za-z_-]{30,}`)
	tokenForm   = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{8,}`)
	bearerForm  = regexp.MustCompile(`^(?i:bearer)[ \t]+[A-Za-z0-9._~+/-]{16,}`)
	bearerWord  = regexp.MustCompile(`^(?i:bearer)[ \t]+`)
	privateForm = regexp.MustCompile(`^-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----`)
)

func keyForms() []keyForm {
	return []keyForm{
		{prefix: "sk-", form: secretForm},
		{prefix: "sk_", form: secretForm},
		{prefix: "rk_", form: secretForm},
		{prefix: "pk-", form: secretForm},
		{prefix: "pawl_", form: pawlForm},
		{prefix: "gsk_", form: secretForm},
		{prefix: "hf_", form: secretForm},
		{prefix: "ghp_", form: secretForm},
		{prefix: "gho_", form: secretForm},
		{prefix: "ghs_", form: secretForm},
		{prefix: "github_pat_", form: secretForm},
		{prefix: "glpat-", form: secretForm},
		{prefix: "xoxb-", form: secretForm},
		{prefix: "xoxp-", form: secretForm},
		{prefix: "AKIA", form: accessForm},
		{prefix: "ASIA", form: accessForm},
		{prefix: "AIza", form: googleForm},
		{prefix: "eyJ", form: tokenForm},
		{prefix: "Bearer", form: bearerForm, skip: bearerWord},
		{prefix: "bearer", form: bearerForm, skip: bearerWord},
		{prefix: "BEARER", form: bearerForm, skip: bearerWord},
	}
}

// findKeys finds API keys, tokens, and private keys.
func findKeys(found []Finding, piece string) []Finding {
	for _, f := range keyForms() {
		found = f.find(found, piece)
	}
	return findPrivateKeys(found, piece)
}

func (k keyForm) find(found []Finding, piece string) []Finding {
	for i := 0; ; {
		at := strings.Index(piece[i:], k.prefix)
		if at < 0 {
			return found
		}
		at += i
		i = at + len(k.prefix)
		if at > 0 && isKeyByte(piece[at-1]) {
			continue
		}
		head := piece[at:min(len(piece), at+window)]
		match := k.form.FindString(head)
		if match == "" {
			continue
		}
		start, end := at, at+len(match)
		for end < len(piece) && (isKeyByte(piece[end]) || strings.IndexByte(".~+/=", piece[end]) >= 0) {
			end++
		}
		if k.skip != nil {
			start += len(k.skip.FindString(head))
		}
		i = end
		end = start + len(strings.TrimRight(piece[start:end], "./-"))
		if isKey(k.prefix, piece[start:end]) {
			found = append(found, Finding{Key, start, end})
		}
	}
}

func isKeyByte(c byte) bool { return isLetterOrDigit(c) || c == '_' || c == '-' }

// isKey looks at the whole: a key has digits, and a JSON web token has its parts.
func isKey(prefix, text string) bool {
	if prefix == "eyJ" {
		return strings.Count(text, ".") >= 2
	}
	return strings.ContainsAny(text, "0123456789")
}

// findPrivateKeys finds blocks of PEM, up to their end or that of the text.
func findPrivateKeys(found []Finding, piece string) []Finding {
	const begin, end = "-----BEGIN ", "-----END "
	for i := 0; ; {
		at := strings.Index(piece[i:], begin)
		if at < 0 {
			return found
		}
		at += i
		i = at + len(begin)
		if !privateForm.MatchString(piece[at:min(len(piece), at+window)]) {
			continue
		}
		stop := len(piece)
		if n := strings.Index(piece[i:], end); n >= 0 {
			stop = i + n
			if line := strings.IndexByte(piece[stop:], '\n'); line >= 0 {
				stop += line
			} else {
				stop = len(piece)
			}
		}
		found = append(found, Finding{Key, at, stop})
		i = stop
	}
}
