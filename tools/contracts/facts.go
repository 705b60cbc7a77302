package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// facts is everything that one contract says: first what is asked for, then what only looks like it. Sums are in minor units
// (kopecks, cents).
type facts struct {
	Number   string
	Date     time.Time
	A, B     party
	Subject  string
	Amount   int64
	Currency string // ISO 4217
	PayDays  int    // 0: payment is not on credit
	Until    time.Time

	// The law in the form that the text needs; trueLaw returns the one that the reader answers.
	Law, LawNom, LawIns, LawDat string

	City, CityGen, Bank                                  string
	ProxyNumber, PrevNumber, RegNumber                   string
	ProxyDate, PrevDate, CertDate, Deadline              time.Time
	VAT, UnitPrice, Monthly, Advance, Fine, Cap, Insured int64
	PrevAmount                                           int64
	Penalty, Unit, Symbol                                string
	Count                                                int
}

// party is one side of a contract.
type party struct {
	Name         string
	Role         string
	Post, Person string
	Place        string // where an English company is registered
	Address      string
	TaxID        string
	Account      string
	BankCode     string
	Phone, Mail  string
}

// trueLaw returns the law as answered, in the nominative.
func (f facts) trueLaw() string {
	if f.LawNom != "" {
		return f.LawNom
	}
	return f.Law
}

// draw takes what every contract has from the seed: parties' details, dates around the contract's own, and sums around amount.
func draw(r *rand.Rand, date time.Time, amount int64) facts {
	hundred := func(part, of int64) int64 { return amount * part / of / 100_00 * 100_00 }
	return facts{
		Date: date, Amount: amount,
		ProxyDate: date.AddDate(0, 0, -20-r.IntN(60)), ProxyNumber: fmt.Sprintf("%d-Д", 10+r.IntN(80)),
		PrevDate: date.AddDate(-1-r.IntN(2), -r.IntN(11), -r.IntN(27)), RegNumber: fmt.Sprintf("20%d6%05d", 18+r.IntN(6), r.IntN(100_000)),
		CertDate: date.AddDate(1, 2+r.IntN(8), r.IntN(27)), Deadline: date.AddDate(0, 3+r.IntN(3), r.IntN(27)),
		VAT: amount / 6, UnitPrice: hundred(1, 12), Advance: hundred(15, 100), Fine: hundred(1, 100), Cap: hundred(1, 2),
		PrevAmount: hundred(int64(7+r.IntN(20)), 100), Insured: hundred(int64(2+r.IntN(3)), 1),
		Penalty: fmt.Sprintf("0.%d", 1+r.IntN(4)), Count: 6 + r.IntN(34),
	}
}

// digits returns n random digits, the first not zero.
func digits(r *rand.Rand, n int) string {
	var s strings.Builder
	s.WriteByte('1' + byte(r.IntN(9)))
	for range n - 1 {
		s.WriteByte('0' + byte(r.IntN(10)))
	}
	return s.String()
}

// companyRU fills in the details of a Russian party.
func companyRU(r *rand.Rand, name, role, post, person, address, host string) party {
	return party{
		Name: name, Role: role, Post: post, Person: person, Address: address,
		TaxID: digits(r, 10), Account: "40702810" + digits(r, 12), BankCode: "04" + digits(r, 7),
		Phone: fmt.Sprintf("+7 (4%s) 555-%02d-%02d", digits(r, 2), r.IntN(100), r.IntN(100)), Mail: "office@" + host,
	}
}

// companyEN fills in the details of an English-speaking party.
func companyEN(r *rand.Rand, name, role, post, person, place, address, host string) party {
	return party{
		Name: name, Role: role, Post: post, Person: person, Place: place, Address: address,
		TaxID: digits(r, 8), Account: digits(r, 4) + " " + digits(r, 4) + " " + digits(r, 4),
		Mail: "contracts@" + host,
	}
}

func day(year int, month time.Month, d int) time.Time {
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// withCommaPenalty writes the rate of the penalty as Russian texts do.
func (f facts) withCommaPenalty() facts {
	f.Penalty = strings.Replace(f.Penalty, ".", ",", 1)
	return f
}
