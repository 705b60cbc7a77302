package extract_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"pawl.internal/services/llmgateway/provider/simulated/extract"
)

const nullableFields = `{"type":"object","properties":{
	"contract_number":{"type":["string","null"]},"contract_date":{"type":["string","null"],"format":"date"},
	"party_a":{"type":["string","null"]},"party_b":{"type":["string","null"]},"subject":{"type":["string","null"]},
	"amount":{"type":["number","null"]},"currency":{"type":["string","null"]},"payment_term_days":{"type":["integer","null"]},
	"valid_until":{"type":["string","null"],"format":"date"},"governing_law":{"type":["string","null"]}}}`

// answer returns the engine's answer to a text, decoded, after checking that it fits the schema.
func answer(t *testing.T, p extract.Prompt, schema string) any {
	t.Helper()
	raw, err := extract.New().Answer(p, []byte(schema))
	require.NoError(t, err)
	require.NoError(t, conforms(t, []byte(schema), raw), "%s", raw)
	var v any
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// TestWordings has, for each rule, wordings that the example contracts do not use, and ones that only look like the fact.
func TestWordings(t *testing.T) {
	for _, c := range []struct {
		field, text string
		want        any
	}{
		{"contract_number", "Agreement No.: X-17/b\n\nThe parties agree.", "X-17/b"},
		{"contract_number", "1. ОПЛАТА\n\n1.1. Оплата по настоящему договору № 5-К производится частями.", "5-К"},
		{"contract_number", "1. PAYMENT\n\n1.1. The invoice no. 4711 is annexed to this file.", nil},
		{"contract_date", "CONTRACT 5\n\nDated 1 May 2025\n\nThe parties agree.", "2025-05-01"},
		{"contract_date", "1. ОБЩИЕ ПОЛОЖЕНИЯ\n\n1.1. Настоящий договор заключён 07.08.2025 в г. Туле.", "2025-08-07"},
		{"contract_date", "1. DELIVERY\n\n1.1. The goods arrive on 7 August 2025.", nil},
		{"contract_date", "Договор\n\nДата: 31.02.2025", nil},
		{"party_a", "Contract between Ostrava Steel GmbH (the \"Mill\") and Alder Ltd (the \"Dealer\").", "Ostrava Steel GmbH"},
		{"party_b", "Contract between Borealis Oy (the \"Mill\") and Alder & Sons Ltd (the \"Dealer\").", "Alder & Sons Ltd"},
		{"party_b", "ООО «Альфа» (далее по тексту — «Заимодавец») и ИП Ким Анна Львовна (далее — «Заёмщик»).", "ИП Ким Анна Львовна"},
		{"party_a", "1. БАНК\n\n1.1. Счёт открыт в АО «Банк».", nil},
		{"subject", "The object of this contract is the repair of two pumps.", "the repair of two pumps"},
		{"subject", "1. DELIVERY\n\n1.1. The Seller shall deliver the goods.", nil},
		{"amount", "Цена договора составляет 1,5 млн рублей.", 1500000.0},
		{"amount", "The purchase price is two million three hundred thousand euros.", 2300000.0},
		{"amount", "Сумма договора — 12 345 (двенадцать тысяч триста сорок пять) рублей 07 копеек.", 12345.07},
		{"amount", "The total price is CHF 1.250.000,50.", 1250000.5},
		{"amount", "За просрочку начисляется штраф 5 000 рублей.", nil},
		{"currency", "The total fee amounts to 900 US dollars.", "USD"},
		{"currency", "Общая стоимость составляет 10 000 тенге.", "KZT"},
		{"payment_term_days", "Payment terms: net 60 from the date of invoice.", 60.0},
		{"payment_term_days", "The Buyer shall pay within thirty days of delivery.", 30.0},
		{"payment_term_days", "Поставщик выставляет счёт в течение 3 дней, а Покупатель оплачивает его в течение 21 дня.", 21.0},
		{"payment_term_days", "The seller shall deliver within 14 days.", nil},
		{"valid_until", "Срок действия договора — до «1» марта 2030 года.", "2030-03-01"},
		{"valid_until", "This contract shall continue in effect through December 1st, 2031.", "2031-12-01"},
		{"valid_until", "The offer is valid until 2026-01-01.", nil},
		{"governing_law", "The contract shall be construed under Swiss law.", "Swiss law"},
		{"governing_law", "Применимым является право Республики Сербии; применимо право Республики Сербии.", "право Республики Сербии"},
		{"governing_law", "Стороны обязаны соблюдать законодательство Российской Федерации.", nil},
	} {
		fields, ok := answer(t, extract.Prompt{Text: c.text}, nullableFields).(map[string]any)
		require.True(t, ok)
		require.Equal(t, c.want, fields[c.field], "%s in %q", c.field, c.text)
	}
}

// TestMerge gives the engine what earlier steps found, as JSON inside the prompt.
func TestMerge(t *testing.T) {
	prompt := extract.Prompt{Text: `Put together:
[{"contract_number":null,"amount":10,"confidence":0.9},{"contract_number":"A-1","amount":20,"confidence":0.6}]`}
	schema := `{"type":"object","properties":{"contract_number":{"type":["string","null"]},"amount":{"type":"number"},
		"currency":{"type":["string","null"]},"confidence":{"type":"number","minimum":0,"maximum":1},"summary":{"type":"string"}}}`
	require.Equal(t, map[string]any{
		"contract_number": "A-1", "amount": 10.0, "currency": nil, "confidence": 0.6,
		"summary": "Put together:",
	}, answer(t, prompt, schema))
}

func TestNoParticularSchema(t *testing.T) {
	require.Equal(t, "Short.", answer(t, extract.Prompt{Text: "Short."}, `{}`))
	require.Equal(t, "Short.", answer(t, extract.Prompt{Text: "Short."}, `true`))
}

func TestListsInsideJSON(t *testing.T) {
	prompt := extract.Prompt{Text: `{"tags":["late","card"],"more":["a note"]} and {"tags":["card","refund"]}`}
	require.Equal(t, map[string]any{"tags": []any{"late", "card", "refund"}},
		answer(t, prompt, `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}}}}`))
}

func TestDocumentInsideJSON(t *testing.T) {
	prompt := extract.Prompt{Text: `{"text":"1.1. The total price is EUR 75.","title":"1. PRICE"}`}
	fields, ok := answer(t, prompt, nullableFields).(map[string]any)
	require.True(t, ok)
	require.InDelta(t, 75, fields["amount"], 0)
	require.Equal(t, "EUR", fields["currency"])
}

func TestSections(t *testing.T) {
	const schema = `{"type":"object","properties":{"sections":{"type":"array","items":{"type":"object","properties":{
		"number":{"type":"integer"},"title":{"type":"string"},"text":{"type":"string"}}}}}}`
	const text = "A title\nand more\n\n1. First\n\n1.1. Steps:\n1. one;\n2. two.\n\n3. Not the next\n\n2. Second\nthe end"
	require.Equal(t, map[string]any{"sections": []any{
		map[string]any{"number": 0.0, "title": "A title", "text": "A title\nand more"},
		map[string]any{"number": 1.0, "title": "1. First", "text": "1.1. Steps:\n1. one;\n2. two.\n\n3. Not the next"},
		map[string]any{"number": 2.0, "title": "2. Second", "text": "the end"},
	}}, answer(t, extract.Prompt{Text: text}, schema))
}

func TestUnknownProperties(t *testing.T) {
	const letter = "Order id: 17-A\nClient: Anna\nHello, my card was charged twice, please refund it. I am not urgent about it.\n" +
		"Write to anna@example.com.\n- first point\n- second point\nAge 42\nDelivery date: 4 May 2026\n" +
		"Call +7 999 123-45-67 or see https://example.com/x, ticket 0191d2b0-0000-7000-8000-00000000abcd, seen 2026-05-04T10:00:00Z"
	for _, c := range []struct {
		name, schema string
		want         any
	}{
		{"order_id", `{"type":"string"}`, "17-A"},
		{"client", `{"type":["string","null"]}`, "Anna"},
		{"age", `{"type":"integer"}`, 42.0},
		{"reply_to", `{"type":"string","format":"email"}`, "anna@example.com"},
		{"code", `{"type":"string","pattern":"^\\d{2}-[A-Z]$"}`, "17-A"},
		{"is_charged", `{"type":"boolean"}`, true},
		{"urgent", `{"type":"boolean"}`, false},
		{"topic", `{"enum":["delivery","billing","other"],"description":"delivery: parcel, courier; billing: card, refund"}`, "billing"},
		{"mood", `{"enum":["happy","other"]}`, "other"},
		{"mood", `{"enum":["happy",null]}`, nil},
		{"points", `{"type":"array","items":{"type":"string"}}`, []any{"first point", "second point"}},
		{"mails", `{"type":"array","items":{"type":"string","format":"email"}}`, []any{"anna@example.com"}},
		{"height", `{"type":["number","null"]}`, nil},
		{"height", `{"type":"number","minimum":3}`, 3.0},
		{"nickname", `{"type":"string","maxLength":11}`, "Order id"},
		{"language", `{"type":"string"}`, "en"},
		{"confidence", `{"type":"integer","minimum":0,"maximum":100}`, 95.0},
		{"version", `{"const":3}`, 3.0},
		{"contact_phone", `{"type":"string"}`, "+7 999 123-45-67"},
		{"contact_email", `{"type":"string"}`, "anna@example.com"},
		{"site_url", `{"type":"string"}`, "https://example.com/x"},
		{"ticket", `{"type":"string","format":"uuid"}`, "0191d2b0-0000-7000-8000-00000000abcd"},
		{"seen_at", `{"type":"string","format":"date-time"}`, "2026-05-04T10:00:00Z"},
		{"nothing", `{"type":"null"}`, nil},
		{
			"place", `{"allOf":[{"properties":{"age":{"type":"integer"}}},{"properties":{"client":{"type":"string"}}}]}`,
			map[string]any{"age": 42.0, "client": "Anna"},
		},
		{"ages", `{"items":{"type":"integer"},"minItems":1}`, []any{0.0}},
		{"delivery_date", `{"type":["string","null"],"format":"date"}`, "2026-05-04"},
		{"birth_date", `{"type":["string","null"],"format":"date"}`, nil},
		{"birth_date", `{"type":"string","format":"date"}`, "2026-05-04"},
		{"sections", `{"type":"array","items":{"type":"string"}}`, []any{"Order id: 17-A"}},
		{"parties", `{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}}`, []any{}},
		{"place", `{"anyOf":[{"type":"object","properties":{"city":{"type":["string","null"]}}},{"type":"null"}]}`, map[string]any{"city": nil}},
	} {
		got := answer(t, extract.Prompt{Text: letter}, `{"type":"object","properties":{"`+c.name+`":`+c.schema+`}}`)
		require.Equal(t, map[string]any{c.name: c.want}, got, c.schema)
	}
}

func TestListOfParties(t *testing.T) {
	p := extract.Prompt{Text: `Between Borealis Oy (the "Mill") and Alder Ltd (the "Dealer").`}
	require.Equal(t, map[string]any{"parties": []any{
		map[string]any{"name": "Borealis Oy", "role": nil}, map[string]any{"name": "Alder Ltd", "role": nil},
	}}, answer(t, p, `{"type":"object","properties":{"parties":{"type":"array","items":{"type":"object","properties":{
		"name":{"type":"string"},"role":{"type":["string","null"]}}}}}}`))
}

func TestInstructionsExplainChoices(t *testing.T) {
	schema := `{"type":"object","properties":{"topic":{"enum":["delivery","payment"]}}}`
	p := extract.Prompt{Instructions: "Topics.\n- delivery: посылка, курьер\n- payment: карта, оплата", Text: "Почему нет моей посылки? Курьер молчит."}
	require.Equal(t, map[string]any{"topic": "delivery"}, answer(t, p, schema))
	p.Text = "С моей карты списали дважды."
	require.Equal(t, map[string]any{"topic": "payment"}, answer(t, p, schema))
}

func TestDoubtLowersConfidence(t *testing.T) {
	schema := `{"type":"object","properties":{"confidence":{"type":"number"},"topic":{"enum":["delivery","payment"]}}}`
	for text, want := range map[string]float64{
		"A delivery is late.":             0.95,
		"Hello.":                          0.5,
		"Delivery or payment?":            0.5,
		"Delivery of [illegible] parcels": 0.4,
	} {
		fields, ok := answer(t, extract.Prompt{Text: text}, schema).(map[string]any)
		require.True(t, ok)
		require.InDelta(t, want, fields["confidence"], 0, text)
	}
}

func TestReferences(t *testing.T) {
	schema := `{"$defs":{"side":{"type":["string","null"]},"tree":{"type":"object","properties":{"party_a":{"$ref":"#/$defs/side"},
		"branches":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}`
	require.Equal(t, map[string]any{"party_a": nil, "branches": []any{}}, answer(t, extract.Prompt{Text: "Nothing."}, schema))
}

func TestBadSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                            "unexpected EOF",
		`{"type":7}`:                   "type must be a name",
		`{"$ref":"#/$defs/none"}`:      `$ref "#/$defs/none"`,
		`{"$ref":"http://x.example/"}`: "only references within the schema",
		`{"properties":{"a":{"type":"string","pattern":"("}}}`: "a: pattern",
		`{"properties":[]}`: "properties must be an object",
	} {
		_, err := extract.New().Answer(extract.Prompt{Text: "x"}, []byte(schema))
		require.ErrorContains(t, err, want, schema)
	}
}

func TestSay(t *testing.T) {
	e := extract.New()
	require.Equal(t, "Simulated answer: How are you?", e.Say(extract.Prompt{Text: "How are you?"}))
	require.Equal(t, "Ответ имитатора: Как дела?", e.Say(extract.Prompt{Text: "Как дела?"}))
}
