package simjob

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Cards connects n cards of an emulated Myrinet to a switch.
func Cards(t *testing.T, w *sim.World, n int) (all []*lanai.Card) {
	t.Helper()
	f, err := myrinet.New(w, myrinet.Options{Ports: 16})
	if err != nil {
		t.Fatal(err)
	}
	hub := f.Switch("hub")
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 0, byte(i)} }
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
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}
