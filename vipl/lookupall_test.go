package vipl_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLookupAll: everybody who answers to a name is found, also by a NIC that
// advertises it itself, in the presence of loss, and nobody else is.
func TestLookupAll(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	var nics []*vipl.NIC
	var addrs []ethertype.Addr
	for range 4 {
		nic, err := vipl.Open(&vipl.Config{Link: w.Station("nic"), Seed: uint64(len(nics) + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer nic.Close()
		l, err := nic.Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		nics, addrs = append(nics, nic), append(addrs, l.Addr())
	}
	for i, name := range []string{"service", "service", "another", "service"} {
		if err := nics[i].Advertise(name, addrs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, nic := range nics[1:] {
		w.Go("answerer", func() {
			for end := w.Now() + int64(2*time.Second); w.Now() < end; nic.Poll() {
				if err := w.Sleep(time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.Go("asker", func() {
		for name, want := range map[string][]ethertype.Addr{"service": {addrs[1], addrs[3]}, "another": {addrs[2]}, "none": nil} {
			ctx, cancel := nics[0].WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if got, err := nics[0].LookupAll(ctx, name); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v, want %v", name, got, err, want)
			}
		}
		if _, err := nics[0].LookupAll(t.Context(), ""); !errors.Is(err, vipl.ErrInvalidParameter) {
			t.Errorf("the empty name: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
