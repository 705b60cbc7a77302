package extract

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// earlier reports whether the words speak of another contract, one that is over.
func earlier(s string) bool {
	return has(s, "ранее", "предыдущ", "прежн", "прежд", "взамен", "прекращает", "the earlier", "an earlier", "previous", "prior", "supersed", "replac",
		"former", "evaluation")
}

// contract reports whether the words name a contract.
func contract(s string) bool {
	return has(s, "договор", "контракт", "соглашени", "agreement", "contract", "lease", "licence", "license")
}

var numberMark = regexp.MustCompile(`(?i)(?:№|\bno\.?|\bnumber|номер)\s*:?\s*([\p{L}\d][\p{L}\d/._-]*)`)

// contractNumber returns the number that the contract gives itself: at its head, or with words like "this Agreement No.".
func contractNumber(t *text) any {
	var found []candidate[string]
	titled := false // the head has named the kind of contract
	for _, p := range t.paragraphs() {
		titled = titled || p.preamble && contract(strings.ToLower(head(p.text, 60)))
		for _, at := range numberMark.FindAllStringSubmatchIndex(p.text, -1) {
			number := strings.TrimRight(p.text[at[2]:at[3]], ".")
			if !strings.ContainsAny(number, "0123456789") {
				continue
			}
			left := strings.ToLower(p.text[:at[0]])
			near := tail(left, 30)
			own := p.preamble && contract(near) || p.preamble && titled && at[0] == 0
			found = append(found, candidate[string]{number, points(3, own) + points(3, contract(near) && has(near, "настоящ", "this")) +
				points(-9, earlier(tail(left, 60))) + points(-9, has(near, "приложени", "доверенност", "annex", "schedule", "invoice"))})
		}
	}
	return orNil(best(found, 3))
}

// contractDate returns the date on which the contract was made.
func contractDate(t *text) any {
	var found []candidate[string]
	for _, p := range t.paragraphs() {
		for _, s := range p.sentences {
			for _, m := range mentions(s, dates(s.text)) {
				near := tail(m.left, 60)
				score := points(3, has(near, "made", "dated", "entered into", "заключен", "заключён", "подписан", "составлен") &&
					(p.preamble || has(s.lower, "настоящ", "this")))
				if p.preamble {
					score += points(4, utf8.RuneCountInString(p.text) <= maxHeading) + points(3, has(m.left, "дата", "date")) +
						points(3, contract(m.left) && numberMark.MatchString(m.left))
				}
				score += points(-9, earlier(near) || has(tail(m.left, 45), "доверенн", "power of attorney", "регистрац", "запис", "deed",
					"recorded", "granted", "соглашение о", "non-disclosure", "until", "действу"))
				found = append(found, candidate[string]{m.value.iso, score})
			}
		}
	}
	return orNil(best(found, 3))
}

// validUntil returns the date to which the contract itself is in force.
func validUntil(t *text) any {
	var found []candidate[string]
	for _, s := range t.sentences() {
		for _, m := range mentions(s, dates(s.text)) {
			own := has(m.left, "договор", "контракт", "соглашени", "agreement", "contract", "lease", "this licen") ||
				has(s.heading, "срок действия", "term", "duration", "validity")
			force := has(m.left, "действует", "действия", "действовать", "in force", "in effect", "valid", "expire", "term", "ends", "terminates")
			edge := has(tail(m.left, 14), "до", "по", "истекает", "until", "through", "till", "to", "on", "expires")
			found = append(found, candidate[string]{m.value.iso, points(2, own) + points(2, force) + points(1, edge) +
				points(-9, earlier(m.left) || has(m.left, "сертификат", "полис", "гаранти", "поддержк", "прайс", "доверенн", "поставк",
					"certificat", "insur", "policy", "support", "price list", "community", "warrant", "offer"))})
		}
	}
	return orNil(best(found, 5))
}

// total returns the price of the whole contract, and not a part of it, a tax, a penalty or a limit.
func total(t *text) (sum, bool) {
	var found []candidate[sum]
	for _, s := range t.sentences() {
		side := has(s.heading, "ответственн", "liabilit", "insur", "страхов", "penalt", "штраф")
		for _, m := range mentions(s, sums(s)) {
			near := head(m.right, 30)
			found = append(found, candidate[sum]{m.value, points(-9, side || partial(m.left) || perUnit(near)) +
				points(3, has(m.left, "общая стоимость", "общая сумма", "общая цена", "цена договора", "сумма договора", "цена работ",
					"стоимость работ", "стоимость услуг", "вознаграждени", "total", "aggregate", "contract price", "licence fee", "license fee",
					"purchase price", "overall")) +
				points(2, has(m.left, "за весь", "в целом", "whole", "entire")) +
				points(1, has(m.left, "стоимость", "цена", "сумма", "price", "fee", "rent", "составляет", "amounts to", "is"))})
		}
	}
	return best(found, 3)
}

// partial reports whether the words before a sum make it something other than the whole price.
func partial(left string) bool {
	return earlier(left) || has(left, "ндс", "налог", "аванс", "задолженност", "штраф", "неустойк", "пени", "страхов", "предел", "не превыша",
		"превыша", "уставн", "ежемесячн", "равными частями", "ставк", "за единицу", "одной", "кадастров", "обеспечительн", "ориентировочно",
		"ограничен", "свыше", "vat", "tax", "advance", "deposit", "penalt", "damages", "insur", "limit", "exceed", "cap", "monthly", "single",
		"per", "instal", "balance", "maximum", "each", "cover", "up to", "liability", "charge")
}

// perUnit reports whether the words after a sum make it a price per piece or per period.
func perUnit(right string) bool {
	return has(right, "за единицу", "за квартал", "в месяц", "за час", "в год", "за каждый", "per", "a month", "a year", "each")
}

var (
	creditDays  = regexp.MustCompile(`(?i)(\d{1,3})\)?\s*(?:\([^)]*\)\s*)?(?:` + dayKinds + `\s+)?(?:дн|day)`)
	spelledDays = regexp.MustCompile(`(?i)^\s*(?:` + dayKinds + `\s+)?days`)
	netDays     = regexp.MustCompile(`(?i)\bnet\s+(\d{1,3})\b`)
)

const dayKinds = `(?:календарн\p{L}+|рабоч\p{L}+|банковск\p{L}+|calendar|business|working|banking)`

// period is a number of days in a sentence.
type period struct {
	place
	days string
}

// periods returns the periods in days of a sentence, in their order.
func periods(s sentence) []period {
	var found []period
	for _, pattern := range []*regexp.Regexp{creditDays, netDays} {
		for _, at := range pattern.FindAllStringSubmatchIndex(s.text, -1) {
			found = append(found, period{place{at[0], at[1]}, strings.TrimLeft(s.text[at[2]:at[3]], "0")})
		}
	}
	if strings.Contains(s.lower, "days") && len(s.lower) == len(s.text) {
		for _, n := range inWords(s.lower) {
			if at := spelledDays.FindStringIndex(s.lower[n.end:]); at != nil {
				found = append(found, period{place{n.start, n.end + at[1]}, strconv.FormatInt(n.value, 10)})
			}
		}
	}
	return inOrder(found)
}

// paymentDays returns within how many days the price has to be paid.
func paymentDays(t *text) any {
	var found []candidate[string]
	for _, s := range t.sentences() {
		about := points(2, has(s.heading, "расчет", "расчёт", "оплат", "цена", "стоимост", "плата", "вознагражд", "price", "payment", "fee",
			"rent", "freight", "billing")) + points(-3, has(s.heading, "ответственн", "форс", "непреодолим", "расторж", "гаранти", "liabilit",
			"force", "terminat", "insur", "warrant", "penalt", "default"))
		for _, m := range mentions(s, periods(s)) {
			near := m.left + " | " + head(m.right, 40)
			found = append(found, candidate[string]{m.value.days, about + points(4, pays(m.left)) + points(2, pays(m.right)) +
				points(1, has(near, "счет", "счёт", "invoice")) +
				points(1, has(tail(m.left, 30), "в течение", "не позднее", "within", "net", "no later")) +
				points(-9, otherwiseDue(near))})
		}
	}
	days, ok := best(found, 4)
	if !ok {
		return nil
	}
	return json.Number(days)
}

// pays reports whether the words speak of paying.
func pays(s string) bool {
	return has(s, "оплат", "оплач", "платеж", "платёж", "перечисл", "уплач", "уплат", "выплат", "выплач", "вносит", "окончательный расчет",
		"окончательный расчёт", "pay", "remit", "settle", "due", "net")
}

// otherwiseDue reports whether the words are about another deadline than that of the price.
func otherwiseDue(s string) bool {
	return has(s, "просроч", "задержк", "неустойк", "пени", "штраф", "аванс", "возврат", "возвращ", "обеспечительн", "уведом", "приостан",
		"расторж", "устран", "возраж", "претензи", "отказ", "overdue", "late", "interest", "advance", "deposit", "refund", "return", "notify",
		"notice", "suspend", "terminat", "cure", "fail", "claim", "demand", "penalt", "damages", "dispute")
}

var (
	lawRU     = regexp.MustCompile(`(?i:законодательств\p{L}*|прав(?:о|у|ом|а|е))(\s+\p{Lu}\p{Ll}+(?:\s+\p{Lu}\p{Ll}+){0,3})`)
	lawsOf    = regexp.MustCompile(`(?i:laws?\s+of\s+(?:the\s+)?)\p{Lu}\p{L}+(?:\s+(?:of\s+|and\s+|the\s+)*\p{Lu}\p{L}+)*`)
	namedLaws = regexp.MustCompile(`\p{Lu}\p{Ll}+\s+law\b`)
)

// governingLaw returns the law that the contract is subject to, in the nominative: "право Республики Казахстан", "Dutch law".
func governingLaw(t *text) any {
	for _, s := range t.sentences() {
		if !has(s.lower, "регулир", "подчин", "применяет", "применим", "govern", "construed", "applies", "applicable", "subject to the") {
			continue
		}
		if m := lawRU.FindStringSubmatch(s.text); m != nil {
			if has(strings.ToLower(m[0]), "законодательств") {
				return "законодательство" + m[1]
			}
			return "право" + m[1]
		}
		for _, p := range []*regexp.Regexp{lawsOf, namedLaws} {
			if law := p.FindString(s.text); law != "" {
				return law
			}
		}
	}
	return nil
}

var (
	definition = regexp.MustCompile(`(?i)(?:предмет\p{L}*\s+(?:настоящ\p{L}+\s+)?(?:договора|контракта|соглашения)\s+(?:является|являются)` +
		`|\b(?:subject|object)(?:\s+matter)?\s+of\s+(?:this|the)\s+\p{L}+\s+is)\s+`)
	duty     = regexp.MustCompile(`(?i)\s(?:обязуется|обязан|shall|agrees\s+to|undertakes\s+to)\s+`)
	dutyEnds = regexp.MustCompile(`(?i)\s*(?:\((?:далее|hereinafter|the\s+["“]|["“])|,\s+(?:а|and)\s+(?:the\s+)?\p{L}+\s+(?:обязуется|shall|agrees|undertakes)` +
		`|\.?$)`)
)

// subject returns what the contract is about: what it says its subject is, else the first duty under the heading of that name.
func subject(t *text) any {
	all := t.sentences()
	for _, s := range all {
		if at := definition.FindStringIndex(s.text); at != nil {
			return upToEnd(s.text[at[1]:])
		}
	}
	for _, s := range all {
		if !has(s.heading, "предмет", "subject", "object of", "scope") {
			continue
		}
		if at := duty.FindStringIndex(s.text); at != nil {
			return upToEnd(s.text[at[1]:])
		}
	}
	return nil
}

// upToEnd cuts a description where the other party's duty, or a definition in brackets, begins.
func upToEnd(s string) string {
	if at := dutyEnds.FindStringIndex(s); at != nil {
		s = s[:at[0]]
	}
	return strings.TrimSpace(s)
}

// sentences returns all sentences of the text.
func (t *text) sentences() []sentence {
	var all []sentence
	for _, p := range t.paragraphs() {
		all = append(all, p.sentences...)
	}
	return all
}

func orNil(value string, ok bool) any {
	if !ok {
		return nil
	}
	return value
}
