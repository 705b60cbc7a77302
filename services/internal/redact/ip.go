package redact

import (
	"net/netip"
	"regexp"
	"strings"
)

var (
	ipWord      = regexp.MustCompile(`(?i)(?:^|[^\pL\d])(?:ip|host|addr|address|адрес)(?:[^\pL\d\n][^\d\n]{0,12})?$`)
	versionWord = regexp.MustCompile(`(?i)(?:^|[^\pL\d])(?:v|ver|version|release|верси[ияей])[. ]?$`)
)

// telling is the number from which on a part is no number of an article or version.
const telling = 64

// ipv4 finds addresses of a host somewhere: not 127.0.0.1 or 0.0.0.0, and not what may be the number of an article (4.1.2.3) or
// of a version.
func ipv4(n number, i int) (int, Finding) {
	if i+4 > len(n.groups) || !n.separated(i, 4, ".") || i+4 < len(n.groups) && n.groups[i+4].sep == "." || i > 0 && n.groups[i].sep != " " {
		return 0, Finding{}
	}
	start, end := n.groups[i].start, n.groups[i+3].end
	if wordEnds(n.piece[:start]) || strings.HasSuffix(n.piece[:start], ".") || wordBegins(n.piece[end:]) {
		return 0, Finding{}
	}
	a, err := netip.ParseAddr(n.piece[start:end])
	if err != nil || a.IsLoopback() || a.IsUnspecified() || n.told(i, versionWord) {
		return 0, Finding{}
	}
	parts := a.As4()
	if parts[0] == 255 || max(parts[0], parts[1], parts[2], parts[3]) < telling && parts[0] != 10 && !n.told(i, ipWord) {
		return 0, Finding{}
	}
	return 4, Finding{IP, start, end}
}

// findIPv6 finds addresses of version 6, but ::1.
func findIPv6(found []Finding, piece string) []Finding {
	for i := 0; ; {
		at := strings.IndexByte(piece[i:], ':')
		if at < 0 {
			return found
		}
		start := i + at
		for start > i && isHex(piece[start-1]) {
			start--
		}
		end := i + at
		for end < len(piece) && (isHex(piece[end]) || piece[end] == ':') {
			end++
		}
		i = end
		if wordEnds(piece[:start]) || wordBegins(piece[end:]) {
			continue
		}
		end = start + len(strings.TrimRight(piece[start:end], ":"))
		if isIPv6(piece[start:end]) {
			found = append(found, Finding{IP, start, end})
		}
	}
}

// isIPv6 wants three groups and a digit: a::b may be a name in a program.
func isIPv6(text string) bool {
	const longest = 39
	if len(text) > longest || strings.Count(text, ":") < 3 || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	a, err := netip.ParseAddr(text)
	return err == nil && !a.IsLoopback() && !a.IsUnspecified()
}

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
