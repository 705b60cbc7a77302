package provider

import "strings"

// Image is where an image is: in the question itself, or elsewhere.
type Image struct {
	// MediaType and Data, in base64, are those of a data URL; empty for an image elsewhere.
	MediaType, Data string
	// URL is an https address; empty for an image in the question.
	URL string
}

// ParseImage reads the address of an image, which stands in the field.
func ParseImage(field, address string) (Image, error) {
	if strings.HasPrefix(address, "https://") {
		return Image{URL: address}, nil
	}
	rest, isData := strings.CutPrefix(address, "data:")
	if !isData {
		return Image{}, Refuse(field, "an image has an address that begins with https://, or a data URL such as data:image/png;base64,…")
	}
	head, data, _ := strings.Cut(rest, ",")
	kind, isBase64 := strings.CutSuffix(head, ";base64")
	kind, _, _ = strings.Cut(kind, ";")
	if !isBase64 || data == "" || !strings.HasPrefix(kind, "image/") {
		return Image{}, Refuse(field, "the data URL is not that of an image in base64: write data:image/png;base64,…")
	}
	return Image{MediaType: kind, Data: data}, nil
}
