package failure

import (
	"regexp"
	"time"
	_ "time/tzdata" // Google's day is California's, also on machines without a table of time zones
)

// nextMonth is when Anthropic's monthly limits begin anew: 00:00 UTC on the first day of the next month.
func nextMonth(_ said, now time.Time) time.Time {
	year, month, _ := now.UTC().Date()
	return time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
}

// nextPacificDay is when Google's daily quotas begin anew: midnight in California, which is 07:00 or 08:00 UTC.
func nextPacificDay(_ said, now time.Time) time.Time {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		const hoursBehind = 8
		pacific = time.FixedZone("PST", -hoursBehind*60*60)
	}
	year, month, day := now.In(pacific).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, pacific).UTC()
}

var momentInText = regexp.MustCompile(`\b(\d{4}-\d{2}-\d{2})(?:(?: at |T| )(\d{2}:\d{2}))?`)

// regained reads when access returns, as in "You will regain access on 2026-12-01 at 00:00 UTC."
func regained(s said, _ time.Time) time.Time {
	found := momentInText.FindStringSubmatch(s.message)
	if found == nil {
		return time.Time{}
	}
	clock := found[2]
	if clock == "" {
		clock = "00:00"
	}
	at, err := time.Parse("2006-01-02 15:04", found[1]+" "+clock)
	if err != nil {
		return time.Time{}
	}
	return at
}
