package provider

import "slices"

// EventsInPieces returns the events of a body that comes in pieces of the size.
func EventsInPieces(body []byte, size int) []Event {
	var events []Event
	p, tell := eventParser{}, func(e Event) { events = append(events, e) }
	for piece := range slices.Chunk(body, size) {
		p.feed(piece, tell)
	}
	p.end(tell)
	return events
}
