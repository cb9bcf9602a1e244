package fault_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
)

// full is a link in virtual time at which frames have arrived: time stands still
// until they have been taken.
type full struct {
	transport.Link
	left int
	now  int64
}

func (l *full) Now() int64             { return l.now }
func (l *full) Ready() bool            { return l.left > 0 }
func (l *full) Stats() transport.Stats { return transport.Stats{} }

func (l *full) Recv(views [][]byte) (n int, err error) {
	for ; n < len(views) && l.left > 0; n++ {
		views[n] = []byte("a frame")
		l.left--
	}
	return n, nil
}

func (l *full) Wait(until int64) error {
	if l.left == 0 {
		l.now = until
	}
	return nil
}

// TestCrowdDelayed delays more frames than fit: the others are lost and
// counted, and who waits does not wait for ever at the same moment.
func TestCrowdDelayed(t *testing.T) {
	const frames = 3000
	inner := &full{left: frames, now: 1}
	l := fault.New(inner, fault.Options{Dir: fault.Rx, Delay: time.Millisecond})
	views := make([][]byte, transport.MaxBatch)
	got := 0
	for range 1000 {
		n, err := l.Recv(views)
		if err != nil {
			t.Fatal(err)
		}
		if got += n; n == 0 {
			l.Wait(inner.now + int64(10*time.Millisecond))
		}
	}
	if lost := int(l.Stats().RxDrops); got < 500 || got+lost != frames {
		t.Errorf("of %d frames %d were received and %d lost, at %v; %d were never taken",
			frames, got, lost, time.Duration(inner.now), inner.left)
	}
}
