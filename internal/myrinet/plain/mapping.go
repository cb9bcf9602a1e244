package plain

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
)

// straight is the table of a card that knows nobody: what a direct cable needs. A switch
// drops packets without a route at once, so it does no harm there.
var straight = []Route{{To: ethertype.Broadcast}}

// SetRoutes implements mapper.Card.
func (p *program) SetRoutes(entries []mapper.Entry) {
	fit := p.maps.Fits(entries, MaxHops)
	routes := make([]Route, 0, len(fit))
	for _, e := range fit {
		routes = append(routes, Route{To: e.Host, Turns: e.Route})
	}
	if len(routes) == 0 || p.tab.set(routes) != nil {
		_ = p.tab.set(straight) // it always fits
	}
}
