package provider

import (
	"errors"
	"net/url"
)

// ParseBase checks the address of an API. It must not carry credentials: addresses stand in logs.
func ParseBase(base string) (*url.URL, error) {
	address, err := url.Parse(base)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, errors.New("not the address of an API: write https://host/v1")
	}
	if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, errors.New("the address of an API has no user, password, query or fragment: keys belong into api_key_env or api_key_file")
	}
	return address, nil
}
