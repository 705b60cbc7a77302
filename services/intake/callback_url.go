package intake

import (
	"net/url"
	"strings"

	"pawl.internal/services/internal/fault"
)

// checkCallbackURL checks how a callback URL is written. Whether its host may be called is decided when it is called, by
// the address it then resolves to.
func checkCallbackURL(text string) []fault.Violation {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	var message string
	switch {
	case err != nil:
		message = "must be a URL such as https://example.com/hook"
	case u.Scheme != "https" && u.Scheme != "http":
		message = "must begin with https:// or http://"
	case u.Hostname() == "":
		message = "must name a host, such as https://example.com/hook"
	case u.User != nil:
		message = "must not contain a user name or password: deliveries are signed instead"
	case strings.Contains(text, "#"):
		message = "must not have a fragment (#…)"
	default:
		return nil
	}
	return []fault.Violation{{Field: "callback_url", Message: message}}
}
