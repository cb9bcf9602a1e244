package endpoint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"pgregory.net/rapid"
)

// TestVirtualNetworks: two virtual networks between the same two nodes. The
// server of one handles nothing, and its client has used up its credits and
// waits; the other goes on as if that were not there. Nor can a member of one
// send to the other.
func TestVirtualNetworks(t *testing.T) {
	const tagA, tagB = 100, 200
	w := newWorld(sim.Options{})
	done, started := false, false
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		mute, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		mute.ep.SetTag(tagA)
		s.ep.SetTag(tagB)
		for _, p := range []*party{mute, s} {
			p.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.ReplyMedium(hReply, data, args...) })
		}
		w.board["a"], w.board["server"] = mute.ep.Name(), s.ep.Name()
		return s.serve(n, &done)
	})
	w.node("client a", endpoint.Config{PeerTimeout: time.Minute}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetTag(tagA)
		c.ep.Map(0, w.find("a"), tagA)
		c.ep.Map(1, w.find("server"), tagA) // of the other network
		return c.stall(n, &started, &done)
	})
	w.node("client b", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetTag(tagB)
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		c.ep.Map(0, w.find("server"), tagB)
		for !started {
			w.Sleep(time.Millisecond)
		}
		for range 200 {
			if err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, 4000)); err != nil {
				return err
			}
		}
		return c.until(n, "replies", func() bool { return replies == 200 })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// stall is refused by one server and waits for the other, which does not serve.
func (c *party) stall(n *endpoint.Node, started, done *bool) error {
	if err := c.ep.Request(bg, 1, hEcho); err != nil {
		return err
	}
	if err := c.until(n, "the return", func() bool { return len(c.returned) == 1 }); err != nil {
		return err
	}
	if r := c.returned[0].Reason; r != endpoint.ReasonBadTag {
		return fmt.Errorf("a message to the other network came back for %v", r)
	}
	for range endpoint.DefaultCredits.Short {
		if err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, 4000)); err != nil {
			return err
		}
	}
	*started = true
	for !*done { // no credit
		ctx, cancel := n.NIC().WithTimeout(bg, 10*time.Millisecond)
		err := c.ep.RequestMedium(ctx, 0, hEcho, make([]byte, 4000))
		cancel()
		if err == nil {
			return errors.New("a credit came back though nothing was handled")
		}
	}
	return nil
}

// manyPorts is what two nodes of 64 endpoints need that all talk to each other, beside
// those of the NIC and the node.
const manyPorts = 2*64*64 + 2

// TestPorts: the first nodes on an interface have ports for many endpoints, later ones
// as many as any NIC, and who asks for some gets these.
func TestPorts(t *testing.T) {
	p := vethtest.New(t, 1500)
	open := func(cfg *endpoint.Config) (ports transport.PortRange, err error) {
		cfg.Interface, cfg.Logger = vethtest.Name, quiet
		err = p.In(0, func() error {
			n, err := endpoint.Open(t.Context(), cfg)
			if err == nil {
				t.Cleanup(func() { n.Close() })
				ports = n.NIC().Query().Ports
			}
			return err
		})
		return ports, err
	}
	if err := p.In(0, func() error { // a program in the midst of the second range
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 12_000, Hi: 12_001}})
		if err == nil {
			t.Cleanup(func() { nic.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, many := range []bool{true, true, false, false} {
		ports, err := open(&endpoint.Config{})
		if err != nil || many != (ports.Len() >= manyPorts) || ports.Len() < 1024 {
			t.Errorf("node %d has ports %v: %v", i, ports, err)
		}
	}
	want := transport.PortRange{Lo: 50_000, Hi: 50_099}
	if ports, err := open(&endpoint.Config{Ports: want}); err != nil || ports != want {
		t.Errorf("asked for %v: %v, %v", want, ports, err)
	}
	if _, err := open(&endpoint.Config{Ports: want}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("asked for ports that are taken: %v", err)
	}
	if _, err := open(&endpoint.Config{Ports: transport.PortRange{Lo: 9, Hi: 8}}); err == nil {
		t.Error("asked for no ports: no error")
	}
}

// TestPortsOfOthers: a NIC that is given has its own ports.
func TestPortsOfOthers(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		_, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: n.NIC(), Ports: transport.PortRange{Lo: 2000, Hi: 3000}})
		if !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("ports for a NIC that is open: %w", err)
		}
		return nil
	})
}

// TestManyEndpoints: 64 endpoints of one node and 64 of another all ask each other,
// with the ports and the memory that there are by default.
func TestManyEndpoints(t *testing.T) {
	const each = 64
	if need, have := each*each*endpoint.ShapeMemory(endpoint.DefaultCredits, endpoint.DefaultMaxMedium), memoryByDefault(t)/2; need > have { // of one station
		t.Errorf("the connections take %d bytes of buffers, of %d", need, have)
	}
	w := newWorld(sim.Options{})
	handled, done := 0, false
	names := map[string][]endpoint.Name{}
	for i, side := range []string{"left", "right"} {
		other := []string{"right", "left"}[i]
		station := w.StationWith(sim.StationOptions{Name: side, Ports: transport.PortRange{Lo: 1024, Hi: 1024 + 9*1024 - 1}})
		w.nodeOn(station, side, endpoint.Config{MaxMedium: 64}, func(n *endpoint.Node) error {
			p, err := newParty(n)
			if err != nil {
				return err
			}
			eps := make([]*endpoint.Endpoint, each)
			for k := range eps {
				if eps[k], err = p.b.NewEndpoint(); err != nil {
					return err
				}
				eps[k].SetTag(endpoint.TagAll)
				eps[k].SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { handled++; done = handled == 2*each*each })
				eps[k].SetReturnHandler(func(r *endpoint.Returned) {
					done = true
					t.Errorf("came back: %+v", r)
				})
				names[side] = append(names[side], eps[k].Name())
			}
			for len(names[other]) < each {
				w.Sleep(time.Millisecond)
			}
			for _, ep := range eps {
				for k, to := range names[other] {
					ep.Map(k, to, 5)
					if err := ep.Request(bg, k, hMute); err != nil {
						return err
					}
				}
			}
			return p.serve(n, &done)
		})
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

func memoryByDefault(t *testing.T) int {
	have, err := (&endpoint.Config{}).ConnectionMemory()
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// TestName: both forms of a name can be read again, and nothing else can.
func TestName(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := endpoint.Name{Addr: ethertype.Addr{MAC: ethertype.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(rt, "MAC")), Port: rapid.Uint16().Draw(rt, "port")},
			ID: rapid.Uint32().Draw(rt, "id"), Incarnation: rapid.Uint32().Draw(rt, "incarnation")}
		b, err := n.MarshalBinary()
		var got endpoint.Name
		if err != nil || len(b) != endpoint.NameSize || got.UnmarshalBinary(b) != nil || got != n {
			rt.Fatalf("%v became %v by way of %x", n, got, b)
		}
		if got, err := endpoint.ParseName(n.String()); err != nil || got != n {
			rt.Fatalf("%v became %v: %v", n, got, err)
		}
		if err := got.UnmarshalBinary(b[1:]); !errors.Is(err, endpoint.ErrName) {
			rt.Fatalf("a short name: %v", err)
		}
	})
	for _, s := range []string{"", "x", "02:00:00:00:00:01/1024", "02:00:00:00:00:01/1024#3", "02:00:00:00:00:01/1024#-3.5f3759df",
		"02:00:00:00:00:01/1024#3.5f3759dfff", "02:00:00:00:00/1024#3.5f3759df", "02:00:00:00:00:01/99999#3.5f3759df"} {
		if n, err := endpoint.ParseName(s); !errors.Is(err, endpoint.ErrName) {
			t.Errorf("%q became %v: %v", s, n, err)
		}
	}
}

// TestNamesInMessages: a name that came in a message can be mapped. The client
// knows only a directory, which tells it of the server that had told it its
// name; the server answers to the name that it finds in the request.
func TestNamesInMessages(t *testing.T) {
	const hTell, hAsk, hGreet = 20, 21, 22
	w := newWorld(sim.Options{})
	greeted, done := false, false
	w.pair(endpoint.Config{}, func(s *party) { // the directory
		var known []byte
		s.ep.SetHandler(hTell, func(_ endpoint.Token, _ []uint32, data []byte) { known = append(known, data...) })
		s.ep.SetHandler(hAsk, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyMedium(hReply, known) })
	}, func(n *endpoint.Node, c *party) error {
		defer func() { done = true }()
		var name endpoint.Name
		c.ep.SetHandler(hReply, func(_ endpoint.Token, _ []uint32, data []byte) { name.UnmarshalBinary(data) })
		c.ep.SetHandler(hGreet, func(endpoint.Token, []uint32, []byte) { greeted = true })
		for name == (endpoint.Name{}) {
			if err := c.ep.Request(bg, 0, hAsk); err != nil {
				return err
			}
		}
		i, err := c.ep.MapAny(name, 5)
		if err != nil {
			return err
		}
		mine, _ := c.ep.Name().MarshalBinary()
		if err := c.ep.RequestMedium(bg, i, hGreet, mine); err != nil {
			return err
		}
		return c.until(n, "the greeting", func() bool { return greeted })
	})
	w.node("another", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		var client endpoint.Name
		s.ep.SetHandler(hGreet, func(_ endpoint.Token, _ []uint32, data []byte) { client.UnmarshalBinary(data) })
		s.ep.Map(0, w.find("server"), 5)
		name, _ := s.ep.Name().MarshalBinary()
		if err := s.ep.RequestMedium(bg, 0, hTell, name); err != nil {
			return err
		}
		if err := s.until(n, "the client's name", func() bool { return client != endpoint.Name{} }); err != nil {
			return err
		}
		if err := s.ep.Map(1, client, 5); err != nil {
			return err
		}
		if err := s.ep.Request(bg, 1, hGreet); err != nil {
			return err
		}
		return s.serve(n, &done)
	})
	if err := w.run(); err != nil || !done {
		t.Fatal(err)
	}
}

// TestPublish: an endpoint is found by a word, until it is freed.
func TestPublish(t *testing.T) {
	var server *party
	var twice error
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
		twice = errors.Join(s.ep.Publish("echo"), nil)
		if twice == nil {
			twice = s.ep.Publish("echo")
		}
	}, func(n *endpoint.Node, c *party) error {
		if !errors.Is(twice, endpoint.ErrInUse) {
			return fmt.Errorf("published twice: %w", twice)
		}
		name, err := n.Find(bg, "echo")
		if err != nil {
			return err
		}
		replied := false
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replied = true })
		c.ep.Map(1, name, 5)
		if err := c.ep.Request(bg, 1, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the reply", func() bool { return replied }); err != nil {
			return err
		}
		server.ep.Free()
		if err := c.ep.Request(bg, 1, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the return", func() bool { return len(c.returned) == 1 }); err != nil {
			return err
		}
		if name, err := n.Find(bg, "echo"); err == nil {
			return fmt.Errorf("found %v, which has been freed", name)
		} else if text := err.Error(); !strings.Contains(text, `the word "echo"`) || strings.Contains(text, "am2/") {
			return fmt.Errorf("the error does not name the word: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStrangers: who asks for connections of the largest shape from an address at
// which nothing reaches him gets no memory and no VI, however many he asks for, and
// others are served meanwhile.
func TestStrangers(t *testing.T) {
	for _, strangers := range []int{12, 500} {
		w := newWorld(sim.Options{})
		stranger := w.Station("stranger")
		w.Script(func(_ int64, _, to *sim.Station, _ []byte) sim.Action { return sim.Action{Drop: to == stranger} })
		var server *party
		done := false
		w.pair(endpoint.Config{}, func(s *party) {
			server = s
			endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
		}, func(n *endpoint.Node, c *party) error {
			defer func() { done = true }()
			w.Sleep(50 * time.Millisecond)
			at := serverNode(server)
			before := at.NIC().Snapshot()
			if vis := len(before.VIs); vis != 0 || endpoint.Taken(at) != 0 || before.RegionBytes != 0 {
				return fmt.Errorf("strangers have %d VIs, %d bytes of buffers, %d registered", vis, endpoint.Taken(at), before.RegionBytes)
			}
			if before.Link.RxFrames < uint64(strangers) {
				return fmt.Errorf("%d frames have come: this tests nothing", before.Link.RxFrames)
			}
			for i := range int32(10) {
				if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, i); err != nil || got != i+1 {
					return fmt.Errorf("an honest call beside them: %d, %w", got, err)
				}
				w.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		w.Go("stranger", func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: stranger, Seed: 9})
			if err != nil {
				w.errs = append(w.errs, err)
				return
			}
			defer nic.Close()
			to := w.find("server")
			for range strangers {
				vi, err := nic.CreateVI(nil, nil, nil)
				if err == nil {
					err = vi.ConnectStart(to.Addr, largest(endpoint.Name{ID: 1}, to))
				}
				if err != nil {
					w.errs = append(w.errs, err)
					return
				}
			}
			for !done {
				w.Sleep(time.Millisecond)
				nic.Poll()
			}
		})
		if err := w.run(); err != nil {
			t.Errorf("%d strangers: %v", strangers, err)
		}
	}
}

// partiesOnVeth opens two nodes with so many parties each.
func partiesOnVeth(t *testing.T, each int) (sides [2][]*party) {
	t.Helper()
	p := vethtest.New(t, 65535)
	for side := range sides {
		var nic *vipl.NIC
		if err := p.In(side, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: transport.PortRange{Lo: 1024, Hi: 8191}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		node, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, Logger: quiet, MaxMedium: 512})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		for range each {
			e, err := newParty(node)
			if err != nil {
				t.Fatal(err)
			}
			sides[side] = append(sides[side], e)
		}
	}
	return sides
}

// TestAllToAllConnect has each of many endpoints of a node send its first request to
// each of as many of another node at once, over interfaces whose frames are so long
// that the receive ring holds a few dozen: every connection comes about.
func TestAllToAllConnect(t *testing.T) {
	each := 64
	if !need.Full() {
		each = 24
	}
	sides := partiesOnVeth(t, each)
	replies, returned := 0, 0
	for _, s := range sides[0] {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	}
	for _, c := range sides[1] {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i, s := range sides[0] {
			if err := c.ep.Map(i, s.ep.Name(), endpoint.TagAll); err != nil {
				t.Fatal(err)
			}
		}
	}
	served := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(served)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, s := range sides[0] {
				s.b.Poll()
			}
		}
	}()
	defer func() { close(stop); <-served }()
	for i := range each {
		for _, c := range sides[1] {
			if err := c.ep.Request(bg, i, hEcho, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for end := time.Now().Add(time.Minute); replies+returned < each*each && time.Now().Before(end); {
		returned = 0
		for _, c := range sides[1] {
			c.b.Poll()
			returned += len(c.returned)
		}
	}
	if replies != each*each {
		for _, c := range sides[1] {
			for _, r := range c.returned {
				t.Fatalf("%d replies and %d messages returned, of %d; one for %+v", replies, returned, each*each, r)
			}
		}
		t.Fatalf("%d replies and %d messages returned, of %d", replies, returned, each*each)
	}
}

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

// largest is what a client says that wants as much as it may.
func largest(from, to endpoint.Name) []byte {
	h := endpoint.HelloFor(from, to, endpoint.MaxCredits)
	binary.LittleEndian.PutUint32(h[32:], endpoint.MaxMediumLimit)
	return h
}

// TestConnectionMemory: strangers who ask for connections of the largest shape
// get no more memory than the part of the node's budget for one station, which others can use
// again when they leave. Who asks for little is served meanwhile.
func TestConnectionMemory(t *testing.T) {
	const budget = 2 << 20
	w := newWorld(sim.Options{})
	var server *party
	w.pair(endpoint.Config{MaxConnectionMemory: 2 * budget}, func(s *party) {
		server = s
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		nic := serverNode(server).NIC()
		idle := nic.Snapshot().RegionBytes
		connect := func(hello []byte) (*vipl.VI, error) {
			vi, err := n.NIC().CreateVI(nil, nil, nil)
			if err != nil {
				return nil, err
			}
			return vi, vi.Connect(bg, to.Addr, hello)
		}
		for range 5 {
			if _, err := connect(largest(c.ep.Name(), to)); !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "congestion") {
				return fmt.Errorf("a connection of the largest shape: %w", err)
			}
		}
		if now := nic.Snapshot().RegionBytes; now != idle {
			return fmt.Errorf("those refused have taken %d bytes", now-idle)
		}
		for range 3 {
			var vis []*vipl.VI
			for len(vis) < 100 {
				vi, err := connect(endpoint.HelloFor(c.ep.Name(), to, 64))
				if err != nil {
					break
				}
				vis = append(vis, vi)
			}
			if taken := nic.Snapshot().RegionBytes - idle; len(vis) != 2 || taken > budget {
				return fmt.Errorf("%d connections of about 800 KiB were accepted, which take %d bytes", len(vis), taken)
			}
			if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 {
				return fmt.Errorf("an honest call beside them: %d, %w", got, err)
			}
			for _, vi := range vis {
				vi.Close()
			}
			w.Sleep(time.Millisecond)
		}
		if got := serverNode(server).Stats().Refused[endpoint.ReasonCongestion]; got != 8 {
			return fmt.Errorf("%d refusals were counted", got)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestGreedyStation: a station that connects as often as it can leaves connections and memory for others.
func TestGreedyStation(t *testing.T) {
	one := endpoint.ShapeMemory(endpoint.DefaultCredits, endpoint.DefaultMaxMedium)
	for name, x := range map[string]struct {
		cfg  endpoint.Config
		want [2]int // connections of the first station, and of the second
	}{
		"connections": {endpoint.Config{MaxConnections: 9}, [2]int{5, 2}},
		"memory":      {endpoint.Config{MaxConnectionMemory: 8 * one}, [2]int{4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(sim.Options{})
			turn, done := 0, false
			w.node("server", x.cfg, func(n *endpoint.Node) error {
				s, err := newParty(n)
				if err != nil {
					return err
				}
				endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
				w.board["server"] = s.ep.Name()
				if err := s.serve(n, &done); err != nil {
					return err
				}
				if got := n.Stats().Refused[endpoint.ReasonCongestion]; got != uint64(len(x.want)) {
					return fmt.Errorf("%d refusals are counted, want %d", got, len(x.want))
				}
				return nil
			})
			for i, want := range append(x.want[:], 1) {
				w.node(fmt.Sprint("client ", i), endpoint.Config{}, func(n *endpoint.Node) error {
					c, err := newParty(n)
					if err != nil {
						return err
					}
					to := w.find("server")
					for turn < i {
						w.Sleep(time.Millisecond)
					}
					if i == len(x.want) {
						defer func() { done = true }()
						if err := c.ep.Map(0, to, 7); err != nil {
							return err
						}
						if got, err := endpoint.Call[int32, int32](bg, c.ep, 0, 1, 5); err != nil || got != 6 {
							return fmt.Errorf("an honest call: %d, %w", got, err)
						}
						return nil
					}
					k := 0
					for ; err == nil; k++ {
						var vi *vipl.VI
						if vi, err = n.NIC().CreateVI(nil, nil, nil); err == nil {
							err = vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, endpoint.DefaultCredits.Short))
						}
					}
					if turn++; k-1 != want || !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "congestion") {
						return fmt.Errorf("%d connections, and then %w, want %d, and congestion", k-1, err, want)
					}
					for !done { // the connections stay
						w.Sleep(time.Millisecond)
					}
					return nil
				})
			}
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDefaultConnectionMemory: by default there is room for one connection of the
// largest shape from one station, not for two, and for all that a node of many credits may have.
func TestDefaultConnectionMemory(t *testing.T) {
	one := endpoint.ShapeMemory(endpoint.Credits{Short: endpoint.MaxCredits}, endpoint.MaxMediumLimit)
	usual := endpoint.ShapeMemory(endpoint.DefaultCredits, endpoint.DefaultMaxMedium)
	for _, c := range []struct {
		cfg         endpoint.Config
		least, most int
	}{
		{endpoint.Config{}, max(2*one, usual*endpoint.DefaultMaxConnections), 4*one - 1},
		{endpoint.Config{Credits: endpoint.Credits{Short: endpoint.MaxCredits}, MaxMedium: endpoint.MaxMediumLimit, MaxConnections: 3}, 3 * one, 3 * one},
		{endpoint.Config{MaxConnections: math.MaxInt}, usual << 20, math.MaxInt},
		{endpoint.Config{MaxConnectionMemory: 1}, 1, 1},
	} {
		if got, err := c.cfg.ConnectionMemory(); err != nil || got < c.least || got > c.most {
			t.Errorf("%+v: %d, want %d..%d: %v", c.cfg, got, c.least, c.most, err)
		}
	}
}
