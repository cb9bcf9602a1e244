package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"pgregory.net/rapid"
)

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
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
