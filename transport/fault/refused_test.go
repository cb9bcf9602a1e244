package fault_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
)

// narrow is a link that refuses long frames which its Info allows, as one does on
// a path whose MTU has turned out to be smaller.
type narrow struct {
	transport.Link
	limit int
	now   int64
	sent  []string
}

func (l *narrow) Info() transport.Info { return transport.Info{MTU: 9000} }
func (l *narrow) Now() int64           { return l.now }
func (l *narrow) Wake()                {}

func (l *narrow) Stats() transport.Stats { return transport.Stats{} }

func (l *narrow) Send(frames []transport.Frame) (n int, err error) {
	for n < len(frames) {
		if frames[n].Len() > l.limit {
			return n, transport.ErrFrameSize
		}
		l.sent = append(l.sent, string(frames[n].Head))
		n++
	}
	return n, nil
}

// TestRefused: a frame that the wrapped link refuses does not hold up those behind
// it, whether they go at once or are delayed; it is counted, and said.
func TestRefused(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		inner := &narrow{limit: 100, now: 1}
		l := fault.New(inner, fault.Options{Delay: delay})
		frames := []transport.Frame{{Head: []byte("first")}, {Head: make([]byte, 200)}, {Head: make([]byte, 300)}, {Head: []byte("last")}}
		n, err := l.Send(frames)
		if want := delay == 0; n != len(frames) || errors.Is(err, transport.ErrFrameSize) != want {
			t.Errorf("delay %v: Send = %d, %v", delay, n, err)
		}
		inner.now += int64(2 * delay)
		if _, err := l.Send(nil); delay > 0 && !errors.Is(err, transport.ErrFrameSize) {
			t.Errorf("delay %v: the next Send = %v", delay, err)
		}
		if len(inner.sent) != 2 || inner.sent[0] != "first" || inner.sent[1] != "last" {
			t.Errorf("delay %v: %q came out", delay, inner.sent)
		}
		if drops := l.Stats().TxDrops; drops != 2 {
			t.Errorf("delay %v: TxDrops = %d, want 2", delay, drops)
		}
	}
}
