package optional

import "github.com/bobnet-go/bobnet/transport"

// Parking is implemented by virtual links, and forwarded by wrappers. Of the goroutines that use
// such a link, one may be in Wait. The others may block only at a Place of the link, because the
// simulated clock advances only when all goroutines known to its world are blocked.
type Parking interface {
	transport.Link

	// Place returns a new place for one goroutine at a time to wait at, or nil if the
	// link that is wrapped has none.
	Place() Place
}

// Place is where a goroutine waits while another one is in Link.Wait.
type Place interface {
	// Wait blocks until Wake is called or the link's clock reaches until. A Wake since the last
	// Wait ends it at once.
	Wait(until int64)

	// Wake ends the current or the next Wait.
	Wake()
}

// PlaceOf returns a new place of link's, or nil if it has none.
func PlaceOf(link transport.Link) Place {
	if p, ok := link.(Parking); ok {
		return p.Place()
	}
	return nil
}
