package endpoint_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLinks: messages of all kinds there and back, messages that are returned,
// and a peer that dies, on every kind of link, and on one on which frames are
// lost, doubled, overtaken and damaged.
func TestLinks(t *testing.T) {
	for _, l := range viplinks.Real {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel() // they spend most of their time waiting for the peer that has died
			seed := seeding.First()
			t.Logf("replay with -endpoint.seed=%d", seed)
			nics := linkNICs(t, l.Driver, l.Faults(seed))
			if driver := nics[0].Query().Driver; !strings.Contains(driver, l.Driver) {
				t.Fatalf("the driver is %s", driver)
			}
			done := make(chan error, 1)
			go func() { done <- overLink(nics) }()
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
			dropped := nics[1].Snapshot().Dropped
			if l.Rate > 0 && (dropped[drops.CRC] == 0 || dropped[drops.Duplicate] == 0) {
				t.Errorf("there were no faults: %v", dropped)
			}
		})
	}
}

// linkNICs opens two NICs on the ends of a wire of the package's own.
func linkNICs(t *testing.T, driver string, wrap func(side int, l transport.Link) transport.Link) [2]*vipl.NIC {
	t.Helper()
	return viplinks.Wire(t, 51, driver, wrap)
}

// overLink runs a server on the first NIC and a client on the second.
func overLink(nics [2]*vipl.NIC) error {
	var parties [2]*party
	var nodes [2]*endpoint.Node
	for i, nic := range nics {
		n, err := endpoint.Open(context.Background(), &endpoint.Config{NIC: nic, PeerTimeout: time.Second, Logger: quiet})
		if err != nil {
			return err
		}
		defer n.Close()
		nodes[i] = n
		if parties[i], err = newParty(n); err != nil {
			return err
		}
	}
	s, c := parties[0], parties[1]
	s.ep.SetTag(7)
	s.ep.SetSegment(make([]byte, 300_000))
	s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		switch {
		case len(data) == 0:
			t.Reply(hReply, args...)
		case len(data) <= endpoint.DefaultMaxMedium:
			t.ReplyMedium(hReply, data, args...)
		default:
			t.ReplyBulk(hReply, data, 5, args...)
		}
	})
	c.ep.Map(0, s.ep.Name(), 7)
	ctx, stop := context.WithCancel(bg)
	defer stop()
	served := make(chan error, 1)
	go func() {
		for {
			if _, err := s.b.WaitPoll(ctx); err != nil {
				served <- err
				return
			}
		}
	}()
	if err := c.thereAndBack(nodes[1]); err != nil {
		return err
	}
	if err := c.refusedOverLink(nodes[1], s.ep.Name()); err != nil {
		return err
	}
	stop()
	<-served // nothing that is sent now is answered
	return c.survive(nodes[1], nics[0])
}

// thereAndBack has requests of all kinds and sizes echoed, and gets.
func (c *party) thereAndBack(n *endpoint.Node) error {
	c.ep.SetSegment(make([]byte, 300_000))
	replies := 0
	var got []byte
	var args []uint32
	c.ep.SetHandler(hReply, func(_ endpoint.Token, a []uint32, data []byte) {
		args, got = slices.Clone(a), slices.Clone(data)
		replies++
	})
	for i, size := range []int{0, 1, 100, 4096, 4097, 200_000, 50_000, 200_000} {
		want := pattern(make([]byte, size), i)
		sends := map[string]func() error{
			"bulk": func() error { return c.ep.RequestBulk(bg, 0, hEcho, want, 1000, uint32(i), 5) },
			"get":  func() error { return c.ep.Get(bg, 0, hReply, 1000, 77, size, uint32(i), 5) },
		}
		if size <= endpoint.DefaultMaxMedium {
			sends["medium"] = func() error { return c.ep.RequestMedium(bg, 0, hEcho, want, uint32(i), 5) }
		}
		if size == 0 {
			sends["short"] = func() error { return c.ep.Request(bg, 0, hEcho, uint32(i), 5) }
		}
		for _, kind := range []string{"short", "medium", "bulk", "get"} { // what bulk has brought is fetched
			send := sends[kind]
			if send == nil {
				continue
			}
			before := replies
			err := send()
			if err == nil {
				err = c.until(n, "the reply", func() bool { return replies > before || len(c.returned) > 0 })
			}
			if err != nil || !bytes.Equal(got, want) || !slices.Equal(args, []uint32{uint32(i), 5}) {
				return fmt.Errorf("%s of %d bytes: got %d, arguments %v, %d came back: %w", kind, size, len(got), args, len(c.returned), err)
			}
		}
	}
	return nil
}

// refusedOverLink has requests of all kinds returned.
func (c *party) refusedOverLink(n *endpoint.Node, server endpoint.Name) error {
	nobody := server
	nobody.ID = 999
	c.ep.Map(1, server, 8)
	c.ep.Map(2, nobody, 7)
	long := make([]byte, 10_000)
	for _, r := range []refusal{
		{"no handler", endpoint.ReasonBadHandler, endpoint.OpRequest, func(c *party) error { return c.ep.Request(bg, 0, 99, 1) }, false},
		{"wrong tag", endpoint.ReasonBadTag, endpoint.OpRequestMedium, func(c *party) error {
			return c.ep.RequestMedium(bg, 1, hMute, payload, 1, 2)
		}, false},
		{"beyond the segment", endpoint.ReasonBadLength, endpoint.OpRequestBulk, func(c *party) error {
			return c.ep.RequestBulk(bg, 0, hMute, payload, 299_900)
		}, false},
		{"long, beyond the segment", endpoint.ReasonBadLength, endpoint.OpRequestBulk, func(c *party) error {
			return c.ep.RequestBulk(bg, 0, hMute, long, 299_900)
		}, false},
		{"get beyond the segment", endpoint.ReasonBadLength, endpoint.OpGet, func(c *party) error {
			return c.ep.Get(bg, 0, hReply, 299_900, 0, 101)
		}, false},
		{"no such endpoint", endpoint.ReasonBadEndpoint, endpoint.OpRequestMedium, func(c *party) error {
			return c.ep.RequestMedium(bg, 2, hMute, payload, 9)
		}, false},
	} {
		if err := c.expect(n, &r); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// survive sends requests to a server that does not answer and dies, and wants
// each back once.
func (c *party) survive(n *endpoint.Node, server *vipl.NIC) error {
	c.returned = nil
	long := make([]byte, 10_000)
	sends := []func(id uint32) error{
		func(id uint32) error { return c.ep.Request(bg, 0, hEcho, id) },
		func(id uint32) error { return c.ep.RequestMedium(bg, 0, hEcho, payload, id) },
		func(id uint32) error { return c.ep.RequestBulkAsync(0, hEcho, long, 0, id) },
	}
	for id, send := range sends {
		if err := send(uint32(id)); err != nil {
			return err
		}
	}
	seam.Link(server).Close() // as when its host dies: nobody says good-bye
	if err := c.until(n, "everything to come back", func() bool { return len(c.returned) == len(sends) }); err != nil {
		return err
	}
	for id := range uint32(len(sends)) {
		if !slices.ContainsFunc(c.returned, func(r endpoint.Returned) bool { return r.Args[0] == id && r.Reason == endpoint.ReasonUnreachable }) {
			return fmt.Errorf("message %d did not come back as unreachable: %+v", id, c.returned)
		}
	}
	return nil
}

// onVeth opens a node in one of the pair's namespaces, on a NIC of its own.
func onVeth(t *testing.T, p *vethtest.Pair, side int) *endpoint.Node {
	t.Helper()
	var nic *vipl.NIC
	if err := p.In(side, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Long: ring.Off})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, MaxMedium: 60_000, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// TestOneHost: endpoints of two programs on one host, and of two hosts, exchange
// messages of all sizes. On one host they go by shared memory, whose frames are
// longer than the wire's, and nobody says so.
func TestOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	server := onVeth(t, p, 0)
	s, err := newParty(server)
	if err != nil {
		t.Fatal(err)
	}
	s.ep.SetSegment(make([]byte, 1<<20))
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		t.ReplyMedium(hReply, data[:min(len(data), 60_000)], args...)
	})
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	served := make(chan error)
	go func() {
		for {
			if _, err := s.b.WaitPoll(ctx); err != nil {
				served <- err
				return
			}
		}
	}()
	for side, wire := range []bool{false, true} {
		n := onVeth(t, p, side)
		c, err := newParty(n)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, ctx, n, c, s.ep.Name(), wire)
	}
	cancel()
	<-served
}

// exchange sends requests of all sizes to server, and checks that a long one
// takes as many frames as the way does.
func exchange(t *testing.T, ctx context.Context, n *endpoint.Node, c *party, server endpoint.Name, wire bool) {
	t.Helper()
	var got []byte
	replies := 0
	c.ep.SetHandler(hReply, func(_ endpoint.Token, _ []uint32, data []byte) {
		got = append(got[:0], data...)
		replies++
	})
	if err := c.ep.Map(0, server, endpoint.TagAll); err != nil {
		t.Fatal(err)
	}
	asked := 0
	await := func(err error) { // a request for bulk data may have run the handler itself
		t.Helper()
		for asked++; err == nil && replies < asked; {
			_, err = c.b.WaitPoll(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data := bytes.Repeat([]byte("one host or two "), 60_000/16)
	await(c.ep.Request(ctx, 0, hEcho, 1, 2, 3))
	await(c.ep.RequestBulk(ctx, 0, hEcho, bytes.Repeat(data, 10), 100))
	before := n.NIC().Snapshot().TxFrames
	await(c.ep.RequestMedium(ctx, 0, hEcho, data))
	if !bytes.Equal(got, data) {
		t.Errorf("the echo of %d bytes has %d", len(data), len(got))
	}
	if frames := n.NIC().Snapshot().TxFrames - before; wire != (frames > 30) {
		t.Errorf("%d frames for a message of %d bytes; over the wire: %v", frames, len(data), wire)
	}
}
