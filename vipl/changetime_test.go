package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// changedLink is a memLink whose interface can be given another MAC: it says so
// when it is asked, and receives nothing any more. The test moves its clock.
type changedLink struct {
	*memLink
	change error
}

func (l *changedLink) Check() error { return l.change }

func (l *changedLink) Recv(views [][]byte) (int, error) {
	if l.change != nil {
		return 0, nil
	}
	return l.memLink.Recv(views)
}

func (l *changedLink) Info() transport.Info {
	i := l.memLink.Info()
	i.Virtual = false // only such links are looked at
	return i
}

// TestMACChangeNoticed gives one side another MAC, in the link's time: both
// sides know long before a peer that is silent would be given up.
func TestMACChangeNoticed(t *testing.T) {
	for _, level := range levels {
		for _, limit := range []time.Duration{100 * time.Millisecond, time.Second, vipl.DefaultPeerTimeout, time.Hour} {
			for _, busy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/busy=%v", level, limit, busy), func(t *testing.T) {
					noticed(t, level, limit, busy)
				})
			}
		}
	}
}

func noticed(t *testing.T, level reliability.Level, limit time.Duration, busy bool) {
	d := &duo{t: t}
	d.links[0], d.links[1] = memPair(1500)
	wire := &changedLink{memLink: d.links[0]}
	for side, link := range []transport.Link{wire, d.links[1]} {
		n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: uint64(side) + 1, NoService: true, WireOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		if side == 0 {
			d.na = n
		} else {
			d.nb = n
		}
	}
	attr := &vipl.Attributes{Reliability: level, PeerTimeout: limit}
	d.a, _ = d.na.CreateVI(attr, nil, nil)
	d.b, _ = d.nb.CreateVI(attr, nil, nil)
	d.connect()
	within := min(limit, vipl.DefaultPeerTimeout) / 8
	if level == reliability.Unreliable { // whose peers are never given up
		within = vipl.DefaultPeerTimeout / 8
	}
	clock := d.links[0].clock
	for range 1000 { // some life before
		*clock += int64(within) / 1000
		d.na.Poll()
		d.nb.Poll()
	}
	d.alive()
	if busy {
		d.post(d.b, 100)
		d.send(d.a, 100)
		d.post(d.a, 100)
		d.send(d.b, 100)
	}
	wire.change = &transport.ChangeError{Interface: "mem", What: "MAC", Old: "this", New: "that"}
	end := *clock + int64(within)
	for *clock < end && (d.a.State() == vipl.StateConnected || d.b.State() == vipl.StateConnected) {
		*clock += int64(within) / 1000
		d.na.Poll()
		d.nb.Poll()
	}
	if err := d.a.Err(); !errors.Is(err, vipl.ErrLink) || errors.Is(err, vipl.ErrPeerLink) {
		t.Errorf("a: %v, want the end of its own link", err)
	}
	if err := d.b.Err(); errors.Is(err, vipl.ErrLink) || !errors.Is(err, vipl.ErrPeerLink) {
		t.Errorf("b: %v, want the end of its peer's link, not of its own", err)
	}
	if !errors.Is(d.a.Err(), transport.ErrChanged) || errors.Is(d.b.Err(), transport.ErrChanged) {
		t.Errorf("a: %v, b: %v; the change was a's", d.a.Err(), d.b.Err())
	}
}
