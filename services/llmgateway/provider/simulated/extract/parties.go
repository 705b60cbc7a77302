package extract

import (
	"regexp"
	"strings"
)

var organisation = regexp.MustCompile(
	`(?i:общество с ограниченной ответственностью|(?:публичное |закрытое |открытое )?акционерное общество|` +
		`товарищество с ограниченной ответственностью)\s+(?:«[^»]{2,80}»|"[^"]{2,80}")` +
		`|(?:ООО|ПАО|ЗАО|ОАО|АО|ТОО|НКО|АНО|ФГУП|ГУП|МУП)\s+(?:«[^»]{2,80}»|"[^"]{2,80}")` +
		`|(?:(?i:индивидуальный предприниматель)|ИП)\s+\p{Lu}\p{Ll}+\s+\p{Lu}\p{Ll}+\s+\p{Lu}\p{Ll}+` +
		`|\p{Lu}[\p{L}\d&'’.-]*(?:\s+(?:[\p{Lu}&][\p{L}\d&'’.-]*|of|and|der|den|de|van|von|du|la)){0,7}?,?\s+` +
		`(?:(?:Pte|Pty)\.?\s+(?:Ltd|Limited)\b|Ltd\b|Limited\b|LLC\b|L\.L\.C|Incorporated\b|Inc\b|Corporation\b|Corp\b|GmbH\b|AG\b|KG\b|` +
		`B\.V|N\.V|S\.A|S\.p\.A|S\.r\.l|PLC\b|plc\b|LLP\b|LP\b|DAC\b|Oy\b|AB\b|ApS\b|A/S|AS\b|SE\b|SAS\b|SARL\b|KK\b)\.?`)

// role matches the words that give a party its name in the contract: именуемое в дальнейшем «Поставщик», (the "Supplier").
var role = regexp.MustCompile(`(?i)(?:именуем\p{L}+\s+(?:в\s+дальнейшем|далее)|далее(?:\s+по\s+тексту)?)\s*[—–-]?\s*[«"“](\p{L}+)[»"”]` +
	`|\((?:hereinafter(?:\s+(?:referred\s+to\s+as|called))?,?\s*)?(?:the\s+)?["“](\p{L}+)["”]\)`)

// partyLabel matches a line that gives a party after its role: "Арендодатель: АО «…»".
var partyLabel = regexp.MustCompile(`^(?:[\p{L}]+|Party [A-Z]|Сторона \d)\s*[:—–]\s*`)

// parties returns the two parties in their order, or nothing: a lone organisation is more likely a bank or a former tenant.
func parties(t *text) []string {
	var names, lines []string
	for _, p := range t.paragraphs() {
		lines = append(lines, p.text)
		if at := partyLabel.FindStringIndex(p.text); at != nil {
			if name := organisationAt(p.text[at[1]:]); name != "" {
				names = append(names, name)
			}
		}
	}
	if defined := byRole(strings.Join(lines, " | ")); len(defined) >= 2 {
		return defined[:2]
	}
	if len(names) >= 2 {
		return names[:2]
	}
	return nil
}

// byRole returns the first organisation before each definition of a role.
func byRole(s string) []string {
	var names []string
	from := 0
	for _, at := range role.FindAllStringIndex(s, -1) {
		if name := organisation.FindString(s[from:at[0]]); name != "" {
			names = append(names, trimName(name))
		}
		from = at[1]
	}
	return names
}

// organisationAt returns the organisation that s begins with.
func organisationAt(s string) string {
	at := organisation.FindStringIndex(s)
	if at == nil || at[0] > 0 {
		return ""
	}
	return trimName(s[:at[1]])
}

// trimName drops words that stand before a name in a sentence and only look like a part of it.
func trimName(name string) string {
	for {
		first, rest, ok := strings.Cut(name, " ")
		if !ok || !has(strings.ToLower(first), "between", "by", "and", "the", "from", "with") {
			return name
		}
		name = rest
	}
}
