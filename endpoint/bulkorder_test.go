package endpoint_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestBulkKeepsPlace: requests that are corked go before bulk data that is
// asked for after them, although it was announced before.
func TestBulkKeepsPlace(t *testing.T) {
	const bulk = 100
	for shorts := range uint32(3) { // so few that none of them polls
		w := newWorld(sim.Options{})
		var got []uint32
		w.pair(endpoint.Config{}, func(s *party) {
			s.ep.SetSegment(make([]byte, 20_000))
			s.ep.SetHandler(hMute, func(_ endpoint.Token, args []uint32, _ []byte) { got = append(got, args...) })
		}, func(n *endpoint.Node, c *party) error {
			rest := func(poll func()) {
				for range 20 {
					w.Sleep(100 * time.Microsecond)
					poll()
				}
			}
			if err := c.ep.Request(bg, 0, hMute, 0); err != nil { // connects
				return err
			}
			rest(func() { c.b.Poll() })
			if err := c.ep.RequestBulkAsync(0, hMute, make([]byte, 10_000), 0, bulk); err != nil {
				return err
			}
			rest(func() { n.NIC().Poll() }) // it is asked for, and the client has not looked
			var want []uint32
			for i := range shorts {
				if err := c.ep.Request(bg, 0, hMute, i); err != nil {
					return err
				}
				want = append(want, i)
			}
			rest(func() { c.b.Poll() })
			if want = append(append([]uint32{0}, want...), bulk); !slices.Equal(got, want) {
				return fmt.Errorf("handled %d, want %d", got, want)
			}
			return nil
		})
		if err := w.run(); err != nil {
			t.Error(err)
		}
	}
}
