package main

import (
	"fmt"
	"math/rand/v2"
)

// kinds returns the ten contracts in the order of their names.
func kinds() []kind {
	return []kind{
		{
			name: "01-ru-supply", ext: "txt", template: "ru/supply", facts: supplyRU,
			layout:   layout{heading: plainHeading, clause: dottedClause},
			variants: map[string]int{"liability": 1, "force": 1, "confidentiality": 1, "disputes": 2, "details": 1},
		},
		{
			name: "02-ru-lease", ext: "txt", template: "ru/lease", facts: leaseRU,
			layout:   layout{heading: wordHeading("Статья", "."), clause: bareClause},
			variants: map[string]int{"liability": 2, "disputes": 1, "details": 2},
		},
		{
			name: "03-ru-support", ext: "md", template: "ru/support", facts: supportRU,
			layout:   layout{heading: markdownHeading, clause: paragraphClause},
			variants: map[string]int{"confidentiality": 2, "liability": 1, "details": 2},
		},
		{
			name: "04-ru-construction", ext: "txt", template: "ru/construction", facts: constructionRU,
			layout:   layout{heading: romanHeading, clause: dottedClause, width: 78},
			variants: map[string]int{"liability": 2, "force": 2, "disputes": 1, "details": 1},
		},
		{
			name: "05-ru-licence", ext: "txt", template: "ru/licence", facts: licenceRU,
			layout:   layout{heading: wordHeading("РАЗДЕЛ", "."), clause: dottedClause},
			variants: map[string]int{"confidentiality": 1, "liability": 2, "details": 1},
		},
		{
			name: "06-en-supply", ext: "txt", template: "en/supply", facts: supplyEN,
			layout:   layout{heading: plainHeading, clause: dottedClause},
			variants: map[string]int{"liability": 1, "force": 1, "confidentiality": 1, "disputes": 1, "details": 1},
		},
		{
			name: "07-en-consulting", ext: "txt", template: "en/consulting", facts: consultingEN,
			layout:   layout{heading: wordHeading("Article", " –"), clause: bareClause},
			variants: map[string]int{"confidentiality": 2, "liability": 2},
		},
		{
			name: "08-en-licence", ext: "md", template: "en/licence", facts: licenceEN,
			layout:   layout{heading: markdownHeading, clause: paragraphClause},
			variants: map[string]int{"liability": 1, "confidentiality": 2, "details": 2},
		},
		{
			name: "09-en-warehouse", ext: "txt", template: "en/warehouse", facts: warehouseEN,
			layout:   layout{heading: wordHeading("SECTION", "."), clause: letterClause, width: 76},
			variants: map[string]int{"liability": 2, "details": 1},
		},
		{
			name: "10-en-carriage", ext: "txt", template: "en/carriage", facts: carriageEN,
			layout:   layout{heading: quietHeading, clause: dottedClause},
			variants: map[string]int{"confidentiality": 1, "force": 2, "details": 2},
		},
	}
}

func supplyRU(r *rand.Rand) facts {
	f := draw(r, day(2026, 3, 2+r.IntN(25)), int64(3600+r.IntN(2000))*1_000_00)
	f.Number = fmt.Sprintf("%d/26-П", 20+r.IntN(70))
	f.PrevNumber = fmt.Sprintf("%d/24-П", 20+r.IntN(70))
	f.City, f.CityGen, f.Bank = "Москва", "Москвы", "АО «Расчётный дом»"
	f.A = companyRU(r, "Общество с ограниченной ответственностью «Вектор-Лаб»", "Поставщик", "генерального директора",
		"Петрова Ильи Сергеевича", "117485, г. Москва, ул. Обручева, д. 30, стр. 2", "vektor-lab.example")
	f.B = companyRU(r, "Акционерное общество «Уральские приборы»", "Покупатель", "заместителя директора",
		"Журавлёва Андрея Павловича", "620014, г. Екатеринбург, ул. Малышева, д. 51", "ural-pribor.example")
	f.Subject = "поставка лабораторного оборудования для испытательного центра"
	f.Currency, f.Unit, f.PayDays = "RUB", "рублей", 30
	f.Until = day(2026, 12, 31)
	f.LawNom, f.LawIns = "законодательство Российской Федерации", "законодательством Российской Федерации"
	return f.withCommaPenalty()
}

func leaseRU(r *rand.Rand) facts {
	monthly := int64(90+r.IntN(80)) * 1_000_00
	f := draw(r, day(2026, 2, 1+r.IntN(20)), monthly*11)
	f.Monthly, f.Advance = monthly, monthly
	f.Number = fmt.Sprintf("А-%d/2026", 100+r.IntN(300))
	f.PrevNumber = fmt.Sprintf("А-%d/2021", 100+r.IntN(300))
	f.City, f.Bank = "Казань", "ПАО «Волжский кредит»"
	f.A = companyRU(r, "АО «Городские кварталы»", "Арендодатель", "директора", "Сафина Рустама Маратовича",
		"420111, г. Казань, ул. Баумана, д. 17", "kvartaly.example")
	f.B = companyRU(r, "Индивидуальный предприниматель Соколова Марина Андреевна", "Арендатор", "", "",
		"420097, г. Казань, ул. Зинина, д. 4, кв. 61", "sokolova-decor.example")
	f.Subject = "предоставить Арендатору за плату во временное пользование нежилое помещение площадью 186,4 кв. м под мастерскую и магазин"
	f.Currency, f.Unit, f.PayDays = "RUB", "рублей", 10
	f.Until = f.Date.AddDate(0, 11, -1)
	f.LawNom = "законодательство Российской Федерации"
	return f.withCommaPenalty()
}

func supportRU(r *rand.Rand) facts {
	quarter := int64(15+r.IntN(12)) * 1_000_00
	f := draw(r, day(2026, 4, 5+r.IntN(20)), quarter*4)
	f.Monthly = quarter
	f.Number = fmt.Sprintf("ИТ-2026/%03d", 10+r.IntN(80))
	f.PrevNumber = fmt.Sprintf("ЛД-%d", 300+r.IntN(600))
	f.City, f.Bank = "Алматы", "АО «Степной банк»"
	f.A = companyRU(r, "ООО «Меридиан Софт»", "Исполнитель", "генерального директора", "Лаптева Олега Игоревича",
		"630099, г. Новосибирск, Красный проспект, д. 25", "meridian-soft.example")
	f.B = companyRU(r, "ТОО «Складской оператор Алатау»", "Заказчик", "коммерческого директора", "Ахметова Данияра Ержановича",
		"050010, г. Алматы, ул. Гоголя, д. 86", "alatau-sklad.example")
	f.Subject = "сопровождение и доработка системы учёта складских операций Заказчика"
	f.Currency, f.Unit, f.PayDays = "EUR", "евро", 25
	f.Until = f.Date.AddDate(1, 0, 0)
	f.LawNom, f.LawDat = "право Республики Казахстан", "праву Республики Казахстан"
	return f.withCommaPenalty()
}

func constructionRU(r *rand.Rand) facts {
	f := draw(r, day(2026, 5, 4+r.IntN(20)), int64(11_000+r.IntN(4000))*1_000_00+int64(100+r.IntN(800))*100+40)
	f.Number = fmt.Sprintf("СП-%d", 1000+r.IntN(900))
	f.PrevNumber = fmt.Sprintf("ЗП-%d", 100+r.IntN(900))
	f.VAT = f.Amount / 6 / 100 * 100
	f.City, f.CityGen, f.Bank = "Санкт-Петербург", "Санкт-Петербурга", "ПАО «Невский строительный банк»"
	f.A = companyRU(r, "ООО «Альтаир Инжиниринг»", "Подрядчик", "генерального директора", "Кравцова Никиты Олеговича",
		"196084, г. Санкт-Петербург, ул. Заставская, д. 7, лит. А", "altair-eng.example")
	f.B = companyRU(r, "ПАО «Балтийский терминал»", "Заказчик", "управляющего директора", "Егорова Павла Дмитриевича",
		"198096, г. Санкт-Петербург, дорога на Турухтанные острова, д. 12", "balt-terminal.example")
	f.Subject = "выполнить по заданию Заказчика работы по реконструкции складского корпуса № 3 с усилением кровли и заменой инженерных сетей"
	f.Currency, f.Unit, f.PayDays = "RUB", "рублей", 15
	f.LawNom = "законодательство Российской Федерации"
	return f.withCommaPenalty()
}

func licenceRU(r *rand.Rand) facts {
	f := draw(r, day(2026, 6, 3+r.IntN(20)), int64(700+r.IntN(260))*1_000_00)
	f.Number = fmt.Sprintf("%d-Л/2026", 200+r.IntN(300))
	f.City, f.Bank = "Новосибирск", "АО «Обской банк»"
	f.A = companyRU(r, "Общество с ограниченной ответственностью «Информ-Контур»", "Лицензиар", "директора",
		"Белова Максима Юрьевича", "630090, г. Новосибирск, проспект Академика Лаврентьева, д. 6", "inform-kontur.example")
	f.B = companyRU(r, "Закрытое акционерное общество «Крона»", "Лицензиат", "главного инженера", "Фомина Сергея Львовича",
		"634050, г. Томск, ул. Гагарина, д. 11", "krona.example")
	f.Subject = "предоставление права использования программы для ЭВМ «Контур-Смета» на условиях простой лицензии"
	f.Currency, f.Unit, f.PayDays = "RUB", "рублей", 20
	f.Until = day(2029, 6, 30)
	f.LawNom, f.LawIns = "законодательство Российской Федерации", "законодательством Российской Федерации"
	return f.withCommaPenalty()
}

func supplyEN(r *rand.Rand) facts {
	f := draw(r, day(2026, 3, 2+r.IntN(25)), int64(380+r.IntN(300))*1_000_00+500_00)
	f.Number = fmt.Sprintf("SA-2026-%d", 100+r.IntN(800))
	f.PrevNumber = fmt.Sprintf("SA-2023-%d", 100+r.IntN(800))
	f.City, f.Bank = "Singapore", "Straits Merchant Bank"
	f.A = companyEN(r, "Harrow & Finch Instruments Pte. Ltd.", "Supplier", "managing director", "Adrian Koh", "Singapore",
		"18 Tuas Avenue 4, Singapore 639382", "harrowfinch.example")
	f.B = companyEN(r, "Coral Bay Analytics Pty Ltd", "Buyer", "chief operating officer", "Megan Doyle", "New South Wales, Australia",
		"52 Bourke Road, Alexandria NSW 2015, Australia", "coralbay.example")
	f.Subject = "the supply of spectrometers and sample preparation units for a water testing laboratory"
	f.Currency, f.Symbol, f.PayDays = "USD", "USD ", 45
	f.Until = day(2027, 12, 31)
	f.Law = "laws of the Republic of Singapore"
	return f
}

func consultingEN(r *rand.Rand) facts {
	phase := int64(18+r.IntN(10)) * 1_250_00
	f := draw(r, day(2026, 2, 1+r.IntN(22)), phase*4)
	f.Monthly, f.Insured = phase, 2_000_000_00
	f.Number = fmt.Sprintf("CS/%04d", 200+r.IntN(700))
	f.PrevNumber = fmt.Sprintf("FA/%04d", 200+r.IntN(700))
	f.City = "London"
	f.A = companyEN(r, "Halden Consulting Limited", "Consultant", "", "", "England and Wales",
		"7 Carter Lane, London EC4V 5EP", "halden.example")
	f.B = companyEN(r, "Marlowe Freight Group plc", "Client", "", "", "England and Wales", "1 Harbour Parade, Felixstowe IP11 3SY",
		"marlowefreight.example")
	f.Subject = "analyse the Client's warehouse network and prepare a plan for its consolidation"
	f.Currency, f.Symbol, f.PayDays = "GBP", "£", 30
	f.Until = day(2026, 11, 30)
	f.Law = "laws of England and Wales"
	return f
}

func licenceEN(r *rand.Rand) facts {
	f := draw(r, day(2026, 4, 4+r.IntN(20)), int64(180+r.IntN(160))*1_000_00)
	f.Number = fmt.Sprintf("LIC-%d", 80_000+r.IntN(9_000))
	f.PrevNumber = fmt.Sprintf("EVAL-%d", 1_000+r.IntN(9_000))
	f.City, f.Bank = "Dublin", "Liffey Savings Bank"
	f.A = companyEN(r, "Tidewater Software DAC", "Licensor", "director", "Niamh Brennan", "Ireland",
		"4 Custom House Quay, Dublin 1, Ireland", "tidewater.example")
	f.B = companyEN(r, "Rosenfeld Versand GmbH", "Licensee", "managing director", "Jonas Albrecht", "Germany",
		"Speicherstrasse 21, 20457 Hamburg, Germany", "rosenfeld-versand.example")
	f.Subject = "a non-exclusive licence to use the route planning software Tidewater Fleet in the Licensee's own operations"
	f.Currency, f.Symbol = "EUR", "EUR "
	f.Until = f.Date.AddDate(3, 0, -1)
	f.Law = "laws of Ireland"
	return f
}

func warehouseEN(r *rand.Rand) facts {
	monthly := int64(28+r.IntN(16)) * 1_000_00
	f := draw(r, day(2026, 7, 1+r.IntN(25)), monthly*36)
	f.Monthly, f.Advance, f.Insured = monthly, 2*monthly, 3_000_000_00
	f.Number = fmt.Sprintf("WL-%d-26", 300+r.IntN(600))
	f.PrevNumber = digits(r, 7)
	f.City, f.Bank = "Wilmington", "Brandywine Trust Company"
	f.A = companyEN(r, "Brandywine Logistics Park LLC", "Landlord", "manager", "Curtis Webb", "Delaware",
		"900 Terminal Avenue, New Castle, DE 19720", "brandywinepark.example")
	f.B = companyEN(r, "Copperline Outfitters, Inc.", "Tenant", "president", "Laura Medina", "Pennsylvania",
		"315 Market Street, Harrisburg, PA 17101", "copperline.example")
	f.Subject = "lease to Tenant approximately 84,000 square feet of warehouse space in Building 6 at 900 Terminal Avenue"
	f.Currency, f.Symbol, f.PayDays = "USD", "$", 14
	f.Until = day(2029, 9, 30)
	f.Law = "laws of the State of Delaware"
	return f
}

func carriageEN(r *rand.Rand) facts {
	f := draw(r, day(2026, 6, 8+r.IntN(20)), int64(240+r.IntN(200))*1_000_00+750_50)
	f.Number = fmt.Sprintf("%d-C/2026", 40+r.IntN(50))
	f.PrevNumber = fmt.Sprintf("%d-C/2023", 40+r.IntN(50))
	f.City, f.Bank = "Rotterdam", "Maas Handelsbank"
	f.A = companyEN(r, "Van der Hoeve Transport B.V.", "Carrier", "director", "Pieter van der Hoeve", "Rotterdam",
		"Waalhaven Zuidzijde 14, 3088 HH Rotterdam", "vdhoeve.example")
	f.B = companyEN(r, "Lindqvist Kyl AB", "Shipper", "head of logistics", "Sara Lindqvist", "Gothenburg",
		"Fiskhamnsgatan 6, 414 58 Göteborg", "lindqvist-kyl.example")
	f.Subject = "the carriage of chilled and frozen goods by road between Rotterdam and Gothenburg"
	f.Currency, f.Symbol, f.PayDays = "EUR", "EUR ", 40
	f.Law = "Dutch law"
	return f
}
