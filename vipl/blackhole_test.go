package vipl_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// A wire that swallows everything for blackout, from the lightFrames-th frame of a
// link on.
const (
	blackout    = 5 * time.Second
	lightFrames = 60
)

type blackholeLink struct {
	transport.Link
	sent      int
	since     int64         // when the first frame was swallowed; 0: none has been
	swallowed *atomic.Int64 // frames
}

func (l *blackholeLink) Send(frames []transport.Frame) (int, error) {
	if l.sent < lightFrames {
		n, err := l.Link.Send(frames[:min(len(frames), lightFrames-l.sent)])
		l.sent += n
		return n, err
	}
	now := l.Now()
	if l.since == 0 {
		l.since = now
	}
	if now-l.since < int64(blackout) {
		l.swallowed.Add(int64(len(frames)))
		return len(frames), nil
	}
	return l.Link.Send(frames)
}

// TestBlackholeLinks has each link swallow all that either side sends for five seconds
// in the midst of traffic both ways. It goes on afterwards, and nothing is missing. All
// links do so at the same time.
func TestBlackholeLinks(t *testing.T) {
	links := viplinks.All[1:]
	if !need.Full() {
		links = links[:1]
	}
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(func() { t.Run(l.Name, func(t *testing.T) { blackhole(t, l.Setup(t)) }) })
	}
	all.Wait()
}

func blackhole(t *testing.T, open opener) {
	var swallowed [2]atomic.Int64
	nics := open.nics(t, vipl.Config{}, func(side int, l transport.Link) transport.Link {
		return &blackholeLink{Link: l, swallowed: &swallowed[side]}
	})
	var work []func() error
	var ends []*vipl.VI
	for i, level := range reliableLevels {
		a, b := join(t, nics, &vipl.Attributes{Reliability: level, PeerTimeout: 4 * blackout})
		there, back := newFlow(t, a, b, 100, 20_000, uint64(i)), newFlow(t, b, a, 100, 20_000, uint64(i)+10)
		work = append(work, there.send, there.receive, back.send, back.receive)
		ends = append(ends, a, b)
	}
	within(t, "the traffic", func() error { return all(work...) })
	for side := range swallowed {
		if swallowed[side].Load() == 0 {
			t.Errorf("side %d: no frame was swallowed", side)
		}
	}
	for _, v := range ends {
		if v.State() != vipl.StateConnected {
			t.Errorf("%v: %v", v.State(), v.Err())
		}
	}
}
