package endpoint_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// clientDeaths are ways in which a client ends while its server replies.
var clientDeaths = []struct {
	name          string
	before, after func(w *world) // the server's reply
	leave         func(n *endpoint.Node)
}{
	{name: "killed before the reply", before: killClient},
	{name: "killed while the reply is under way", after: killClient},
	{name: "its link is closed before the reply", before: func(w *world) { w.stations["client"].Close() }},
	{name: "its link is closed while the reply is under way", after: func(w *world) { w.stations["client"].Close() }},
	{name: "closes its NIC", leave: func(n *endpoint.Node) { n.NIC().Close() }},
	{name: "closes its node", leave: func(n *endpoint.Node) { n.Close() }},
}

func killClient(w *world) { w.Kill(w.stations["client"]) }

// TestClientDies: a client that ends while the server's reply is under way makes the reply come
// back. A server without a ReturnHandler counts that and serves the next client; with AM-II's
// default it ends. No reply comes back from a client that closes its node or its NIC.
func TestClientDies(t *testing.T) {
	for _, death := range clientDeaths {
		for size, kind := range []string{"short", "medium", "bulk"} {
			for _, exits := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/exits %t", death.name, kind, exits), func(t *testing.T) {
					d := &dyingClient{world: newWorld(sim.Options{}), before: death.before, after: death.after, leave: death.leave, size: size}
					if err := d.play(exits); err != nil {
						t.Fatal(err)
					}
					wantCodes, wantLost := 0, uint64(1)
					switch {
					case death.leave != nil: // it has said that it waits for nothing
						wantLost = 0
					case exits:
						wantCodes, wantLost = 1, 0
					}
					if d.codes != wantCodes || d.lost != wantLost {
						t.Errorf("exit was called %d times, and %d lost replies were counted; want %d and %d", d.codes, d.lost, wantCodes, wantLost)
					}
				})
			}
		}
	}
}

// dyingClient is a server, a client that dies, and another one that comes later.
type dyingClient struct {
	*world
	before, after func(w *world)
	leave         func(n *endpoint.Node)
	size          int // of the reply: short, medium, bulk

	codes   int
	lost    uint64
	asked   bool // the server has the request
	replied bool
	over    bool // the reply has come back, or does not
	done    bool // the other client has got its answer
}

func (d *dyingClient) play(exits bool) error {
	cfg := endpoint.Config{PeerTimeout: time.Second, ExitForReplies: exits, Exit: func(int) { d.codes++ }}
	d.node("server", cfg, d.server)
	d.node("client", cfg, d.dies)
	d.node("other", cfg, d.other)
	return d.run()
}

// server replies to requests, and to the client that dies at the moment of its death.
func (d *dyingClient) server(n *endpoint.Node) error {
	s, err := newParty(n)
	if err != nil {
		return err
	}
	s.ep.SetReturnHandler(nil)
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
	s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) {
		if d.before != nil {
			d.before(d.world)
		}
		if d.asked = true; d.leave != nil {
			d.Sleep(100 * time.Millisecond)
		}
		switch d.size {
		case 0:
			t.Reply(hReply)
		case 1:
			t.ReplyMedium(hReply, payload)
		default:
			t.ReplyBulk(hReply, make([]byte, 50_000), 0)
		}
		if d.replied = true; d.after != nil {
			d.after(d.world)
		}
	})
	d.board["server"] = s.ep.Name()
	if d.leave == nil {
		err = s.until(n, "the reply to come back", func() bool { return d.codes > 0 || n.Stats().LostReplies > 0 })
	} else {
		err = s.until(n, "the reply", func() bool { return d.replied })
	}
	if err != nil {
		return err
	}
	d.over = true
	err = s.serve(n, &d.done)
	d.lost = n.Stats().LostReplies
	return err
}

func (d *dyingClient) dies(n *endpoint.Node) error {
	c, err := newParty(n)
	if err != nil {
		return err
	}
	c.ep.SetSegment(make([]byte, 50_000))
	if err := c.ep.Map(0, d.find("server"), 7); err != nil {
		return err
	}
	if err := c.ep.Request(bg, 0, hBig); err != nil {
		return err
	}
	if d.leave != nil {
		for !d.asked {
			if _, err := c.b.Poll(); err != nil {
				return err
			}
			d.Sleep(time.Millisecond)
		}
		d.leave(n)
		return nil
	}
	if err := c.serve(n, &d.over); !errors.Is(err, errDead) {
		return fmt.Errorf("the client lives: %w", err)
	}
	return nil
}

// other asks the server when the first client is dead.
func (d *dyingClient) other(n *endpoint.Node) error {
	defer func() { d.done = true }()
	c, err := newParty(n)
	if err != nil {
		return err
	}
	answered := false
	c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answered = true })
	to := d.find("server")
	for !d.over {
		if err := d.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	if err := c.ep.Map(0, to, 7); err != nil {
		return err
	}
	if err := c.ep.Request(bg, 0, hEcho); err != nil {
		return err
	}
	return c.until(n, "the answer", func() bool { return answered })
}
