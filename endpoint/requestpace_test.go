package endpoint

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
)

// dearWay has a clock of its own.
type dearWay struct {
	idleWay
	now int64
}

func (w *dearWay) Now() int64 { return w.now }

// dearChannel takes longer for a message that goes alone than what requests that come one
// by one are apart, as a slow machine does. Nothing is answered.
type dearChannel struct {
	provider.Channel
	way   *dearWay
	alone int
}

func (c *dearChannel) Post(_, _, together int) {
	if c.way.now += 200; together == provider.Uncork {
		c.alone++
		c.way.now += pollSpacing + 2000
	}
}

// TestPace: requests that come one by one go alone, and those of a stream do not, however long
// it takes to send one alone.
func TestPace(t *testing.T) {
	way := &dearWay{idleWay: idleWay{bell: make(chan struct{}, 1)}, now: 1}
	n := bareNode(way)
	n.cfg.Credits = Credits{Short: 250}
	w := newWaiting(t, n)
	w.ep.Map(0, w.ep.Name(), TagAll)
	send := func(times int, apart int64) {
		for range times {
			way.now += apart
			if err := w.ep.Request(t.Context(), 0, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(1, 0)
	var c *client
	for c = range w.ep.clients.places { // there is one
	}
	ch := &dearChannel{Channel: c.ch, way: way}
	c.ch = ch
	for range 2 {
		ch.alone = 0
		send(20, 5*pollSpacing)
		if ch.alone < 15 {
			t.Errorf("%d of 20 requests went alone that came one by one", ch.alone)
		}
		ch.alone = 0
		send(60, 0)
		if ch.alone > 15 {
			t.Errorf("%d of 60 requests of a stream went alone", ch.alone)
		}
	}
}
