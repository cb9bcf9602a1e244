package endpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// parting is two nodes with many endpoints each, of which each has a connection with one of the
// other node. The server closes, and then the client does.
type parting struct {
	*world
	names    []endpoint.Name
	answered int
	gone     bool // the other one
}

const partings = 60

// TestCloseManyEndpoints closes a node of many endpoints, of which each has a connection whose
// other end has gone, so that its receives are entries of the node's completion queue. As in
// TestCloseManyVIs of package vipl, steps are the entries that are gone through when some
// leave the queue. In all they must be in proportion to the entries, and not to their square.
func TestCloseManyEndpoints(t *testing.T) {
	w := &parting{world: newWorld(sim.Options{Seed: 1})}
	w.node("server", endpoint.Config{}, w.serve)
	w.node("client", endpoint.Config{}, w.ask)
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// serve has each endpoint answer once.
func (w *parting) serve(n *endpoint.Node) error {
	var parties []*party
	for range partings {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		p.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
		parties = append(parties, p)
	}
	for _, p := range parties {
		w.names = append(w.names, p.ep.Name())
	}
	if err := w.talk(parties); err != nil {
		return err
	}
	err := n.Close()
	w.gone = true
	return err
}

// ask has each endpoint ask one of the server's.
func (w *parting) ask(n *endpoint.Node) error {
	for len(w.names) < partings {
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	var parties []*party
	for _, to := range w.names {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		p.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { w.answered++ })
		if err := p.ep.Map(0, to, endpoint.TagAll); err != nil {
			return err
		}
		if err := p.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		parties = append(parties, p)
	}
	if err := w.talk(parties); err != nil {
		return err
	}
	for !w.gone || connected(n) > 0 {
		n.NIC().Poll() // which takes nothing from the completion queue
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	return closeCounted(n)
}

// talk polls until all answers have come.
func (w *parting) talk(parties []*party) error {
	for w.answered < partings {
		for _, p := range parties {
			if _, err := p.b.Poll(); err != nil {
				return err
			}
		}
		if err := w.Sleep(20 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// closeCounted closes a node, and returns an error if that takes too many steps.
func closeCounted(n *endpoint.Node) error {
	m := endpoint.MeterCloses(n)
	if m.Entries < partings {
		return fmt.Errorf("%d entries show nothing", m.Entries)
	}
	if err := n.Close(); err != nil {
		return err
	}
	if limit := 4 * m.Entries; m.Steps > limit || m.Closed != partings {
		return fmt.Errorf("%d steps to close %d connections with %d entries, want %d at the most", m.Steps, m.Closed, m.Entries, limit)
	}
	return nil
}

// connected returns how many VIs of a node's NIC are connected.
func connected(n *endpoint.Node) (count int) {
	for _, v := range n.NIC().Snapshot().VIs {
		if v.State == vipl.StateConnected {
			count++
		}
	}
	return count
}
