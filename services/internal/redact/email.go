package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of the parts of an address, in bytes: those of the standard, twice where letters may have two bytes.
const (
	longestLocal  = 128
	longestDomain = 255
)

// findEmails finds addresses, those with letters of any alphabet too.
func findEmails(found []Finding, piece string) []Finding {
	for i := 0; ; {
		at := strings.IndexByte(piece[i:], '@')
		if at < 0 {
			return found
		}
		at += i
		i = at + 1
		start, end := localStart(piece, at), domainEnd(piece, at+1)
		if start == at || end == at+1 || !isEmail(piece[start:at], piece[at+1:end], piece[end:]) {
			continue
		}
		found = append(found, Finding{Email, start, end})
		i = end
	}
}

// localStart returns where the local part begins that ends before the @.
func localStart(piece string, at int) int {
	start := at
	for start > 0 && at-start < longestLocal {
		r, size := utf8.DecodeLastRuneInString(piece[:start])
		if !isLocal(r) {
			break
		}
		start -= size
	}
	for start < at && strings.IndexByte(".-+%'", piece[start]) >= 0 {
		start++
	}
	return start
}

func isLocal(r rune) bool {
	return r < utf8.RuneSelf && strings.IndexByte("._%+-'", byte(r)) >= 0 || isWordRune(r)
}

// isWordRune reports whether a rune belongs to a word or a number.
func isWordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// domainEnd returns where the domain ends that begins at from: labels with single dots between them.
func domainEnd(piece string, from int) int {
	end, last := from, byte('.')
	for end < len(piece) && end-from < longestDomain {
		r, size := utf8.DecodeRuneInString(piece[end:])
		if !isWordRune(r) && r != '-' && (r != '.' || last == '.') {
			break
		}
		last = piece[end]
		end += size
	}
	return from + len(strings.TrimRight(piece[from:end], ".-"))
}

// isEmail reports whether the parts make an address. Names of files such as logo@2x.png do not, nor does the place of a
// repository, git@host:path.
func isEmail(local, domain, after string) bool {
	dot := strings.LastIndexByte(domain, '.')
	if dot <= 0 || strings.HasPrefix(domain, "-") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") {
		return false
	}
	top := domain[dot+1:]
	if strings.HasPrefix(top, "xn--") {
		return true
	}
	if utf8.RuneCountInString(top) < 2 || strings.ContainsFunc(top, func(r rune) bool { return !unicode.IsLetter(r) }) {
		return false
	}
	switch strings.ToLower(top) {
	case "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "mjs", "ts":
		return false
	}
	return local != "git" || !strings.HasPrefix(after, ":")
}
