package layertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// OnCards runs the suite's transfers, calls, messages, stores and gathers between ranks that have
// cards of an emulated Myrinet, joined by a switch.
func OnCards(t *testing.T, open layer.Open) {
	for _, c := range []struct {
		name  string
		procs int
		fn    func(r *rank) error
	}{{"Transfers", 3, transfers}, {"Calls", 3, calls}, {"Controls", 3, controls}, {"AllToOne", 3, allToOne}, {"LongToOne", 3, longToOne}, {"Gathers", 2, gathers}} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{World: sim.New(sim.Options{Limit: 10 * time.Minute})}
			var err error
			if w.cards, err = Cards(w.World, c.procs); err == nil {
				err = w.run(c.procs, open, c.fn)
			}
			check(t, err)
		})
	}
}

// Cards returns n cards with routes to each other.
func Cards(w *sim.World, n int) (all []*lanai.Card, err error) {
	f, err := myrinet.New(w, myrinet.Options{Ports: n})
	if err != nil {
		return nil, err
	}
	hub := f.Switch("hub")
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 1, 0, byte(i)} }
	for i := range n {
		cfg := lanai.Config{MAC: mac(i), Seed: uint64(i + 1)}
		for k := range n {
			if k != i {
				cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
			}
		}
		var port *myrinet.Port
		c, err := lanai.NewVirtual(myrinet.Virtual{World: w, Waiter: func() myrinet.Waiter { return w.Waiter() }}, func(h myrinet.Host) *myrinet.Port {
			port = f.Host(fmt.Sprint("host", i), h)
			return port
		}, &cfg)
		if err == nil {
			_, err = f.Join(port, hub.Port(i))
		}
		if err != nil {
			return nil, errors.Join(err, fmt.Errorf("card %d", i))
		}
		all = append(all, c)
	}
	return all, nil
}
