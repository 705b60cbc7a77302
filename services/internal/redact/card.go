package redact

import "strings"

// card finds payment cards: the shapes that are printed on them, or one group of as many digits, with an issuer's prefix and
// a valid check digit.
func card(n number, i int) (int, Finding) {
	for _, lengths := range [...]string{"44443", "4444", "465"} {
		if k := len(lengths); n.shaped(i, lengths) && n.alone(i, k) && n.likeACard(i, k) && isCard(n.digits(i, k)) {
			return k, Finding{Card, n.groups[i].start, n.groups[i+k-1].end}
		}
	}
	g := n.groups[i]
	if length := g.end - g.start; length >= 15 && length <= 19 && n.alone(i, 1) && isCard(n.digits(i, 1)) {
		return 1, Finding{Card, g.start, g.end}
	}
	return 0, Finding{}
}

func isCard(digits string) bool {
	return issued(digits) && luhn(digits) && strings.Trim(digits, digits[:1]) != ""
}

// likeACard looks at the separators, which are all the same. Five groups of four are an account.
func (n number) likeACard(i, k int) bool {
	sep := n.groups[i+1].sep
	if sep != " " && sep != "-" && sep != "\u00a0" || !n.separated(i, k, sep) {
		return false
	}
	return k != 4 || !n.shaped(i, "44444") || n.shaped(i, "44444444")
}

// issued reports whether an issuer gives cards of this prefix and length.
func issued(digits string) bool {
	first := func(from, to string) bool { return digits[:len(from)] >= from && digits[:len(to)] <= to }
	switch len(digits) {
	case 15:
		return first("34", "34") || first("37", "37")
	case 16:
		return first("4", "4") || first("51", "55") || first("2221", "2720") || first("2200", "2204") || first("35", "35") ||
			first("6011", "6011") || first("65", "65") || first("62", "62") || first("67", "67")
	case 17:
		return false
	default:
		return first("62", "62") || first("67", "67") || first("50", "50")
	}
}

// iban finds IBANs, written in one piece or in groups of four. The digits at i are the check digits.
func iban(n number, i int) (int, Finding) {
	at := n.groups[i].start
	if at < 2 || !isUpper(n.piece[at-1]) || !isUpper(n.piece[at-2]) || wordEnds(n.piece[:at-2]) {
		return 0, Finding{}
	}
	length := ibanLength(n.piece[at-2 : at])
	if length == 0 {
		return 0, Finding{}
	}
	compact := make([]byte, 0, length)
	end := at - 2
	for end < len(n.piece) && len(compact) < length {
		c := n.piece[end]
		switch {
		case isDigit(c) || isUpper(c):
			compact = append(compact, c)
		case c != ' ' || len(compact)%4 != 0:
			return 0, Finding{}
		}
		end++
	}
	if len(compact) < length || wordBegins(n.piece[end:]) || !mod97(string(compact)) {
		return 0, Finding{}
	}
	k := 1
	for i+k < len(n.groups) && n.groups[i+k].start < end {
		k++
	}
	return k, Finding{IBAN, at - 2, end}
}

// ibanLength is the length of the country's IBANs; 0 for none.
func ibanLength(country string) int {
	const lengths = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 " +
		"FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 MC27 " +
		"MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 " +
		"TL23 TN24 TR26 UA29 VA22 VG24 XK20"
	at := strings.Index(lengths, country)
	if at < 0 || at%5 != 0 {
		return 0
	}
	return int(lengths[at+2]-'0')*10 + int(lengths[at+3]-'0')
}
