package lanai_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// clog is a host that takes no packet until it is opened.
type clog struct {
	port *myrinet.Port
	open bool
	got  int // packets
}

func (c *clog) Room(int) bool        { return c.open }
func (c *clog) Arrived([]byte, bool) { c.got++ }
func (c *clog) Sent()                {}

// TestUnanswered: a card whose answers cannot leave takes every packet that comes. It drops and
// counts those for whose answers it has no room.
func TestUnanswered(t *testing.T) {
	const stations, channels = 40, 4
	n := newNetwork(t, myrinet.Options{Seed: 1, Timeout: time.Hour})
	h := n.host(0, lanai.Config{})
	var routes []myrinet.HostRoute
	for i := range stations {
		routes = append(routes, myrinet.HostRoute{To: mac(100 + i), Turns: myrinet.Route{1}})
	}
	if err := h.SetRoutes(routes); err != nil {
		t.Fatal(err)
	}
	c := &clog{}
	c.port = n.fabric.Host("clog", c)
	if _, err := n.fabric.Join(c.port, n.sw.Port(1)); err != nil {
		t.Fatal(err)
	}
	ask := func(station, channel int) { // the card answers with an epoch for the channel
		n.settle()
		const opening = 32 + 16
		if !c.port.Send(hardware.AppendPacket(nil, myrinet.Route{-1}, lanai.TypePacket, lanai.Forgery(opening+channel<<2, mac(100+station), 1))) {
			t.Error("the packet before has not left")
		}
	}
	for i := range stations * channels {
		ask(i/channels, i%channels)
	}
	n.settle()
	s := h.Snapshot()
	if s.Stats.PacketsIn != stations*channels || s.Stats.Unanswered == 0 {
		t.Errorf("the card took %d packets of %d, and dropped %d because it had no room for the answer, want some",
			s.Stats.PacketsIn, stations*channels, s.Stats.Unanswered)
	}
	c.open = true
	c.port.Resume()
	n.settle()
	if want := stations*channels - int(s.Stats.Unanswered); c.got != want {
		t.Errorf("%d answers came, want %d", c.got, want)
	}
	before := c.got
	ask(stations-1, channels-1)
	if n.settle(); c.got != before+1 {
		t.Error("the card does not answer any more")
	}
}

// settle lets a millisecond pass.
func (n *network) settle() {
	n.t.Helper()
	if err := n.Sleep(time.Millisecond); err != nil {
		n.t.Fatal(err)
	}
}
