package extract

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// The kinds of facts that rules find.
const (
	factNumber   = "contract_number"
	factDate     = "contract_date"
	factPartyA   = "party_a"
	factPartyB   = "party_b"
	factSubject  = "subject"
	factAmount   = "amount"
	factCurrency = "currency"
	factPayDays  = "payment_term_days"
	factUntil    = "valid_until"
	factLaw      = "governing_law"
	factLanguage = "language"
	factSummary  = "summary"
	factDoubt    = "confidence"
)

// factNames returns the property names that ask for each kind of fact, as words joined by underscores.
func factNames() map[string]string {
	return map[string]string{
		factNumber:   "contract_number agreement_number contract_no agreement_no contract_id document_number number номер номер_договора",
		factDate:     "contract_date agreement_date date_of_contract document_date signing_date signature_date signed_on date дата дата_договора",
		factPartyA:   "party_a party_1 party1 first_party сторона_1",
		factPartyB:   "party_b party_2 party2 second_party сторона_2",
		factSubject:  "subject subject_matter contract_subject subject_of_contract scope предмет предмет_договора",
		factAmount:   "amount total total_amount contract_amount contract_value total_price price sum сумма сумма_договора цена",
		factCurrency: "currency currency_code валюта",
		factPayDays:  "payment_term_days payment_terms_days payment_days payment_due_days payment_term days_to_pay срок_оплаты срок_оплаты_дней",
		factUntil:    "valid_until valid_to valid_through expires_on expires_at expiry_date expiration_date end_date действует_до",
		factLaw:      "governing_law applicable_law применимое_право",
		factLanguage: "language lang язык",
		factSummary:  "summary abstract gist overview краткое_содержание резюме",
		factDoubt:    "confidence certainty probability score уверенность",
	}
}

// factNamed returns the kind of fact that a property's name asks for, or "". It is asked when a schema is compiled.
func factNamed(name string) string {
	words := strings.Join(nameWords(name), "_")
	for fact, names := range factNames() {
		if slices.Contains(strings.Fields(names), words) {
			return fact
		}
	}
	return ""
}

// nameWords returns the words of a property's name in lower case: payment_term_days and paymentTermDays have the same three.
func nameWords(name string) []string {
	var spaced strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			spaced.WriteByte(' ')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		spaced.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(spaced.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// fact returns what the rules find of a kind: a string or a json.Number, nil if the text does not say it.
func (t *text) fact(kind string) any {
	value, known := t.facts[kind]
	if !known {
		value = find(t, kind)
		t.facts[kind] = value
	}
	return value
}

func find(t *text, kind string) any {
	switch kind {
	case factNumber:
		return contractNumber(t)
	case factDate:
		return contractDate(t)
	case factPartyA:
		return t.party(0)
	case factPartyB:
		return t.party(1)
	case factSubject:
		return subject(t)
	case factAmount, factCurrency:
		return t.price(kind)
	case factPayDays:
		return paymentDays(t)
	case factUntil:
		return validUntil(t)
	case factLaw:
		return governingLaw(t)
	case factLanguage:
		if t.russian() {
			return "ru"
		}
		return "en"
	}
	return nil
}

// price finds amount and currency together: one is not stated without the other.
func (t *text) price(kind string) any {
	s, ok := total(t)
	if !ok {
		t.facts[factAmount], t.facts[factCurrency] = nil, nil
		return nil
	}
	t.facts[factAmount], t.facts[factCurrency] = json.Number(s.amount), s.currency
	return t.facts[kind]
}

// party finds both parties together and returns one.
func (t *text) party(i int) any {
	kinds := [2]string{factPartyA, factPartyB}
	both := parties(t)
	for j, kind := range kinds {
		t.facts[kind] = nil
		if both != nil {
			t.facts[kind] = both[j]
		}
	}
	return t.facts[kinds[i]]
}
