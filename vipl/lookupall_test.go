package vipl_test

import (
	"errors"
	"slices"
	"strings"
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
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("nic"), Seed: uint64(len(nics) + 1)})
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
		for _, x := range []struct {
			name string
			want []ethertype.Addr
		}{{"service", []ethertype.Addr{addrs[1], addrs[3]}}, {"another", addrs[2:3]}, {"none", nil}} {
			ctx, cancel := nics[0].WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if got, err := nics[0].LookupAll(ctx, x.name); err != nil || !slices.Equal(got, x.want) {
				t.Errorf("%s: %v, %v, want %v", x.name, got, err, x.want)
			}
		}
		if _, err := nics[0].LookupAll(t.Context(), ""); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("the empty name: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestLookupAt: only the NIC that is asked answers, another one that has the name is not heard,
// and one that has not answers nothing.
func TestLookupAt(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	w.Script(func(_ int64, _, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		if _, err := h.Parse(frame); err == nil && h.Dst == ethertype.Broadcast {
			t.Errorf("a frame to all: %+v", h)
		}
		return sim.Action{}
	})
	var nics []*vipl.NIC
	for i := range 3 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("nic"), Seed: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer nic.Close()
		nics = append(nics, nic)
	}
	for _, nic := range nics[1:] {
		if err := nic.Advertise("service", nic.Addr()); err != nil {
			t.Fatal(err)
		}
		w.Go("answerer", func() {
			for end := w.Now() + int64(2*time.Second); w.Now() < end; nic.Poll() {
				if err := w.Sleep(time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.Go("asker", func() {
		for _, nic := range nics[1:] {
			if got, err := nics[0].LookupAt(t.Context(), nic.Addr(), "service"); err != nil || got != nic.Addr() {
				t.Errorf("%v, %v, want %v", got, err, nic.Addr())
			}
		}
		ctx, cancel := nics[0].WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := nics[0].LookupAt(ctx, nics[1].Addr(), "another")
		if !errors.Is(err, vipl.ErrNameService) || !strings.Contains(err.Error(), "no NIC at "+nics[1].Addr().String()) {
			t.Errorf("a name that it has not: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
