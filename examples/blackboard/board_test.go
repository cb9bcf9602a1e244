package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestBoard: all writers see all lines in one order, whatever the network loses.
func TestBoard(t *testing.T) {
	for seed := range uint64(8) {
		w := sim.New(sim.Options{Seed: seed, Loss: 0.05, Reorder: 0.1})
		play(t, w, seed, func(rank int) (vmmc.Config, func(), error) {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station(fmt.Sprint("rank", rank)), Seed: seed*100 + uint64(rank) + 1})
			return vmmc.Config{NIC: nic}, func() { nic.Close() }, err
		})
	}
}

// TestBoardOnCards: so they do on cards of an emulated Myrinet whose cables flip bits.
func TestBoardOnCards(t *testing.T) {
	for seed := range uint64(4) {
		w := sim.New(sim.Options{Seed: seed})
		f, err := myrinet.New(w, myrinet.Options{Seed: seed, BitErrors: 1e-6})
		if err != nil {
			t.Fatal(err)
		}
		hub := f.Switch("hub")
		play(t, w, seed, func(rank int) (vmmc.Config, func(), error) {
			h, err := plugIn(w, f, hub, rank)
			return vmmc.Config{Card: h}, func() {}, err
		})
	}
}

// plugIn adds a card at a switch, which knows the way to all other ports.
func plugIn(w *sim.World, f *myrinet.Fabric, hub *myrinet.Switch, i int) (*lanai.Card, error) {
	mac := func(i int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 0, byte(i)} }
	cfg := lanai.Config{MAC: mac(i), Card: myrinet.CardConfig{Timing: myrinet.PCITiming()}}
	for k := range mostWriters + 1 {
		if k != i {
			cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k), Turns: myrinet.Route{int8(k - i)}})
		}
	}
	var port *myrinet.Port
	h, err := lanai.NewVirtual(myrinet.Virtual{World: w, Waiter: func() myrinet.Waiter { return w.Waiter() }}, func(h myrinet.Host) *myrinet.Port {
		port = f.Host(fmt.Sprint("rank", i), h)
		return port
	}, &cfg)
	if err == nil {
		_, err = f.Join(port, hub.Port(i))
	}
	return h, err
}

const (
	mostWriters = 4
	linesEach   = 50
)

// play has a board and its writers in the simulator, each where open says, and checks what
// each writer has seen.
func play(t *testing.T, w *sim.World, seed uint64, open func(rank int) (cfg vmmc.Config, closeIt func(), err error)) {
	t.Helper()
	writers := 1 + int(seed)%mostWriters
	sums, errs := make([]uint32, writers), make([]error, writers+1)
	for rank := range writers + 1 {
		w.Go(fmt.Sprint("rank", rank), func() {
			cfg, closeIt, err := open(rank)
			if err == nil {
				defer closeIt()
				cfg.Process = uint32(rank)
				err = body(t, &cfg, writers, sums)
			}
			if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	if err := errors.Join(append(errs, w.Run())...); err != nil {
		t.Errorf("seed %d, %d writers: %v", seed, writers, err)
	}
	for writer, sum := range sums {
		if sum != sums[0] || sum == 0 {
			t.Errorf("seed %d: writer %d has seen lines of checksum %08x, writer 1 of %08x", seed, writer+1, sum, sums[0])
		}
	}
}

// body is a rank's program.
func body(t *testing.T, cfg *vmmc.Config, writers int, sums []uint32) error {
	p, err := vmmc.Open(t.Context(), cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	b := &board{p: p, writers: writers, lines: linesEach}
	if cfg.Process == 0 {
		return b.keep(t.Context())
	}
	sums[cfg.Process-1], err = b.write(t.Context(), int(cfg.Process))
	return err
}

// TestPlaces: no two lines and words share memory, and words are aligned.
func TestPlaces(t *testing.T) {
	b := &board{writers: 3, lines: 5}
	mem := make([]byte, b.seenAll(b.writers+1))
	take := func(at, n int) {
		t.Helper()
		if !bytes.Equal(mem[at:at+n], make([]byte, n)) {
			t.Errorf("%d bytes at %d are taken", n, at)
		}
		for i := range n {
			mem[at+i] = 1
		}
	}
	for writer := 1; writer <= b.writers; writer++ {
		for i := range b.lines {
			take(b.place(writer, i), lineSize)
		}
		take(b.seenAll(writer), vmmc.WordSize)
		vmmc.Word(mem, b.seenAll(writer))
	}
}
