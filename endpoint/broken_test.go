package endpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNoRegionLeft: a bulk request whose data cannot be registered comes back,
// and says why.
func TestNoRegionLeft(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetSegment(make([]byte, 100_000))
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
	}, func(n *endpoint.Node, c *party) error {
		if err := c.ep.Request(bg, 0, hMute); err != nil { // connects
			return err
		}
		for mem := make([]byte, 8); ; {
			if _, err := n.NIC().RegisterMem(mem, nil); err != nil {
				break
			}
		}
		if err := c.ep.RequestBulk(bg, 0, hMute, make([]byte, 100_000), 0); err != nil {
			return err
		}
		if err := c.until(n, "the return", func() bool { return len(c.returned) > 0 }); err != nil {
			return err
		}
		if r := c.returned[0]; r.Op != endpoint.OpRequestBulk || r.Reason != endpoint.ReasonUnreachable || !errors.Is(r.Err, vipl.ErrResource) {
			return fmt.Errorf("%v came back for %v: %w", r.Op, r.Reason, r.Err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTwoPlaces: a client may name the place for a slot's next bulk data while the last
// data is on its way, as far as the server knows: an acknowledgement may be late. The
// next data goes when that is known to have arrived. The server keeps nothing of the
// connection when it ends, and no reply comes back to the server's program.
func TestTwoPlaces(t *testing.T) {
	const rounds = 4 // more than there may be connections
	w := newWorld(sim.Options{Bandwidth: 10_000_000})
	var server *party
	w.pair(endpoint.Config{MaxConnections: 2}, func(s *party) {
		server = s
		s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, _ []byte) {
			t.ReplyBulk(hReply, bytes.Repeat([]byte{byte(args[0])}, 50_000), 0)
		})
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		for range rounds {
			x, err := newIntruder(n.NIC(), 1)
			if err != nil {
				return err
			}
			if err := x.newVI(); err != nil {
				return err
			}
			if err := x.vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, 4)); err != nil {
				return err
			}
			mem := make([]byte, 50_000)
			if x.namePlaces(w, mem); !bytes.Equal(mem, bytes.Repeat([]byte{2}, len(mem))) {
				return fmt.Errorf("the data begins with %d, want that of the second reply", mem[0])
			}
			x.vi.Close()
		}
		if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 {
			return fmt.Errorf("an honest call after it: %d, %w", got, err)
		}
		if s := serverNode(server).Stats(); s.Violations != 0 || s.Broken != rounds || len(server.returned) > 0 {
			return fmt.Errorf("%d violations, %d connections broke, %d replies came back", s.Violations, s.Broken, len(server.returned))
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// namePlaces asks for bulk data twice in one slot, and says each time that it may
// be written to mem.
func (x *intruder) namePlaces(w *world, mem []byte) {
	h, _ := x.nic.RegisterMem(mem, &vipl.MemAttributes{EnableRDMAWrite: true})
	binary.LittleEndian.PutUint64(x.window[:], vipl.VirtualAddress(mem))
	binary.LittleEndian.PutUint32(x.window[8:], uint32(h))
	for use := uint32(1); use <= 2; use++ {
		x.say(endpoint.Message(endpoint.ClientKinds[0], hBig, 0, use, 0, 0, 0, 0, []uint32{use}, nil))
		w.Sleep(2 * time.Millisecond) // the data takes 40 ms
		x.say(endpoint.Message(endpoint.KindClear, 0, 0, use, 0, 0, 0, 0, nil, x.window[:]))
		w.Sleep(2 * time.Millisecond)
	}
	for range 20 { // until both have come
		w.Sleep(10 * time.Millisecond)
		x.nic.Poll()
	}
}

// TestHandshakeDies: a server to which nothing happens any more lets a
// connection go whose client died while it was made.
func TestHandshakeDies(t *testing.T) {
	w := newWorld(sim.Options{})
	var server *party
	over := false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) (err error) {
		if server, err = newParty(n); err != nil {
			return err
		}
		nodes.Store(server.b, n)
		w.board["server"] = server.ep.Name()
		ctx, cancel := n.NIC().WithTimeout(bg, time.Minute)
		defer cancel()
		_, err = server.b.WaitPoll(ctx)
		if over = true; !errors.Is(err, endpoint.ErrClosed) {
			return fmt.Errorf("the wait ended with %w", err)
		}
		return nil
	})
	w.Go("client", func() {
		err := dieInHandshake(w, &server, &over)
		if err != nil {
			w.errs = append(w.errs, err)
		}
		server.b.Free()
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

func dieInHandshake(w *world, server **party, over *bool) error {
	station := w.Station("client")
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: 2})
	if err != nil {
		return err
	}
	to := w.find("server")
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	if err := vi.ConnectStart(to.Addr, endpoint.HelloFor(endpoint.Name{ID: 1}, to, 4)); err != nil {
		return err
	}
	n := serverNode(*server)
	vis := func() int { return len(n.NIC().Snapshot().VIs) }
	for vis() == 1 { // the node's own
		nic.Poll() // the server asks for a proof of the address first
		w.Sleep(time.Microsecond)
	}
	w.Kill(station)
	for end := w.Now() + int64(2*vipl.DefaultConnectTimeout); vis() > 1; w.Sleep(10 * time.Millisecond) {
		if w.Now() > end {
			return fmt.Errorf("the connection is still there; %d broke", n.Stats().Broken)
		}
	}
	if *over {
		return errors.New("the wait has ended, though nothing has come")
	}
	return nil
}
