package transport

// Parking is implemented by virtual links, wrappers pass it on. Of the goroutines that
// use one such link, one may be in Wait; the others may block only at a place that the
// link's world knows of, or its clock would stand still.
type Parking interface {
	Link

	// Place returns a new place for one goroutine at a time to wait at, or nil if the
	// link that is wrapped has none.
	Place() Place
}

// Place is where a goroutine waits beside the one in Link.Wait.
type Place interface {
	// Wait blocks until Wake is called or the link's clock reaches until. A Wake that
	// came since the last Wait ends it at once.
	Wait(until int64)

	// Wake ends the current or the next Wait.
	Wake()
}

// PlaceOf returns a new place of link's, or nil if it has none.
func PlaceOf(link Link) Place {
	if p, ok := link.(Parking); ok {
		return p.Place()
	}
	return nil
}
