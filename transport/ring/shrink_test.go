package ring_test

import (
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
)

// fetching is a link whose frames are fetched where only their beginning is given.
type fetching struct {
	transport.Link
	frames wrap.Frames
	rests  int // frames that were fetched
}

func newFetching(l *ring.Link) *fetching {
	b := wrap.New(l, "")
	f := &fetching{Link: l, frames: *wrap.Long(&b)}
	l.StartLong()
	return f
}

func (f *fetching) Recv(views [][]byte) (n int, err error) {
	if n, err = f.Link.Recv(views); n == 0 {
		return n, err
	}
	if f.frames.Link().Rest() > 0 {
		f.rests++
	}
	if views[n-1] = f.frames.Take(views[n-1]); views[n-1] == nil {
		n--
	}
	return n, err
}

// TestFetching: a link whose user fetches what slots do not hold passes all that others pass.
func TestFetching(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: MTU 1500 only")
	}
	p, rests := vethtest.New(t, 65535), 0
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		b := newFetching(open(t, p, 1, ring.Config{Slots: 64}))
		t.Cleanup(func() { rests += b.rests })
		return linktest.Pair{A: newFetching(open(t, p, 0, ring.Config{})), B: b, C: open(t, p, 1, ring.Config{Slots: 64})}
	})
	if rests == 0 {
		t.Error("every frame came whole")
	}
}

// TestShrinkOnce: to ask again for long frames changes nothing, and what has arrived stays.
func TestShrinkOnce(t *testing.T) {
	p := vethtest.New(t, 65535)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{})
	b.StartLong()
	frame := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, make([]byte, 60_000))
	if n, err := a.Send([]transport.Frame{{Head: frame}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	b.StartLong()
	views := make([][]byte, 2)
	if n, err := b.Recv(views); n != 1 || err != nil || len(views[0])+b.Rest() != len(frame) || b.Rest() == 0 {
		t.Errorf("Recv = %d, %v, %d bytes are missing", n, err, b.Rest())
	}
}

// TestViewAfterStartLong: a view from before reads as zeros, as after Close, and does not fault.
func TestViewAfterStartLong(t *testing.T) {
	p := vethtest.New(t, 65535)
	a, b := open(t, p, 0, ring.Config{}), open(t, p, 1, ring.Config{})
	frame := linktest.NewFrame(a.Info(), b.Info(), b.Info().Ports.Lo, []byte("before"))
	if n, err := a.Send([]transport.Frame{{Head: frame}}); n != 1 || err != nil {
		t.Fatalf("Send = %d, %v", n, err)
	}
	views := make([][]byte, 1)
	if n, err := b.Recv(views); n != 1 || err != nil {
		t.Fatalf("Recv = %d, %v", n, err)
	}
	b.StartLong()
	for range 5 { // what frees the addresses runs some time after a collection
		runtime.GC()
		runtime.Gosched()
	}
	if string(views[0]) != string(make([]byte, len(frame))) {
		t.Errorf("the view reads % x", views[0])
	}
	if b.Ready() {
		t.Error("a frame is there that nobody has sent")
	}
}
