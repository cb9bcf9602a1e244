package plain

import (
	"fmt"

	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Limits of the table of routes.
const (
	MaxStations = 256 // in a table, as in the cards of VNT
	MaxHops     = station.MaxHops
)

// setRoutes replaces the table of routes. On an error the table does not change.
func (p *program) setRoutes(routes []myrinet.HostRoute) error {
	if len(routes) > MaxStations {
		return fmt.Errorf("%w: %d stations: want at most %d", station.ErrRoutes, len(routes), MaxStations)
	}
	return p.tab.Set(routes)
}

// SetRoutes implements mapper.RouteTable.
func (p *program) SetRoutes(entries []myrinet.HostRoute) {
	if routes := p.maps.Routes(entries); len(routes) == 0 || p.setRoutes(routes) != nil {
		_ = p.setRoutes(station.Straight) // it always fits
	}
}
