package vipl_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// sleepyLink notes how long the engine would sleep after a message that came alone and
// does not ask to be acknowledged at once.
type sleepyLink struct {
	transport.Link
	now    atomic.Int64
	lone   atomic.Bool
	sleeps chan time.Duration
}

func (l *sleepyLink) Now() int64 {
	now := l.Link.Now()
	l.now.Store(now)
	return now
}

func (l *sleepyLink) Recv(views [][]byte) (int, error) {
	n, err := l.Link.Recv(views)
	if n > 0 {
		var h ethertype.Header
		_, bad := h.Parse(views[0])
		l.lone.Store(n == 1 && bad == nil && h.Kind == ethertype.KindData && h.Flags&ethertype.FlagAckNow == 0)
	}
	return n, err
}

func (l *sleepyLink) Wait(until int64) error {
	if l.lone.Swap(false) {
		select {
		case l.sleeps <- time.Duration(until - l.now.Load()):
		default:
		}
	}
	return l.Link.Wait(until)
}

// TestServiceSleep sends messages to a program that makes no calls: its NIC's
// service takes them in, and must not sleep past the time of their acknowledgement.
func TestServiceSleep(t *testing.T) {
	const messages = 20
	sleepy := &sleepyLink{sleeps: make(chan time.Duration, messages)}
	nics := vethNICs(t, 1500, vipl.Config{}, func(side int, l transport.Link) transport.Link {
		if side == 1 {
			return l
		}
		sleepy.Link = l
		return sleepy
	})
	a, b := join(t, nics, nil)
	in, err := newBuffers(nics[0], messages, 64)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newBuffers(nics[1], 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.descs {
		if err := a.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for len(sleepy.sleeps) > 0 {
		<-sleepy.sleeps
	}
	within(t, "the acknowledgements", func() error {
		for range messages {
			if err := b.PostSend(&out.descs[0]); err != nil {
				return err
			}
			if _, err := b.SendWait(bg); err != nil {
				return err
			}
		}
		return nil
	})
	if len(sleepy.sleeps) < messages/2 {
		t.Errorf("the service slept after %d messages of %d", len(sleepy.sleeps), messages)
	}
	for len(sleepy.sleeps) > 0 {
		if nap := <-sleepy.sleeps; nap > time.Millisecond {
			t.Errorf("a sleep of %v, when an acknowledgement was due", nap)
		}
	}
}
