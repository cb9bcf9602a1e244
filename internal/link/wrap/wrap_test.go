package wrap_test

import (
	"bytes"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// link has one long frame, or has lost its rest.
type link struct {
	transport.Link
	frame []byte
	rest  int
	lost  bool
}

func (l *link) StartLong() bool { return true }

func (l *link) ReceiveLong(on bool) bool { return on }
func (l *link) Cut() bool                { return true }
func (l *link) Rest() int                { return l.rest }

func (l *link) Fetch(from int, parts [][]byte) bool {
	l.rest = 0
	f := l.frame[from:]
	for _, part := range parts {
		f = f[copy(part, f):]
	}
	return !l.lost
}

func newLink() *link {
	frame := bytes.Repeat([]byte("0123456789"), 50)
	return &link{frame: frame, rest: len(frame) - 200}
}

// TestSee: a wrapper sees a long frame whole, and its caller what the wrapped link
// would have given it.
func TestSee(t *testing.T) {
	l := newLink()
	b := wrap.New(l, "test")
	f := wrap.Long(&b)
	views := [][]byte{[]byte("a short one"), l.frame[:200]}
	if last := f.See(views); !bytes.Equal(last, l.frame) {
		t.Fatalf("the frame is %q", last)
	}
	if view := views[1]; !bytes.HasPrefix(l.frame, view) || len(view) < transport.LongBegin || len(view)+f.Rest() != len(l.frame) {
		t.Fatalf("the view has %d bytes, and %d are missing", len(view), f.Rest())
	}
	parts := [][]byte{make([]byte, 7), make([]byte, len(l.frame)-107)}
	if !f.Fetch(100, parts) || !bytes.Equal(append(parts[0], parts[1]...), l.frame[100:]) || f.Rest() != 0 {
		t.Error("it was not fetched")
	}
	if f.Fetch(100, parts) {
		t.Error("it was fetched twice")
	}
	if last := f.See(views[:1]); string(last) != "a short one" || f.Rest() != 0 || f.See(nil) != nil {
		t.Errorf("a short frame is seen as %q, and %d bytes are missing", last, f.Rest())
	}
}

// TestLost: of a frame whose rest the wrapped link has lost the caller of the wrapper
// gets the beginning and learns of the loss when he fetches the rest, as without a
// wrapper. One that he leaves is forgotten.
func TestLost(t *testing.T) {
	for _, fetch := range []bool{true, false} {
		l := newLink()
		l.lost = true
		b := wrap.New(l, "test")
		f := wrap.Long(&b)
		views := [][]byte{l.frame[:200]}
		if last := f.See(views); !bytes.Equal(last, l.frame[:200]) || len(views[0]) != 200 || f.Rest() != len(l.frame)-200 {
			t.Errorf("seen are %d bytes; the view has %d, and %d are missing", len(last), len(views[0]), f.Rest())
		}
		if fetch {
			if f.Fetch(100, [][]byte{make([]byte, len(l.frame)-100)}) || f.Rest() != 0 {
				t.Error("what is lost was fetched")
			}
		} else if f.See(nil); f.Rest() != 0 {
			t.Error("a frame is missing that was in an earlier batch")
		}
	}
}

// TestNone: a link without long frames has none in a wrapper.
func TestNone(t *testing.T) {
	b := wrap.New(struct{ transport.Link }{newLink()}, "test")
	f := wrap.Long(&b)
	views := [][]byte{make([]byte, 1000)}
	if b.StartLong() || b.ReceiveLong(true) || f.Link() != nil || len(f.See(views)) != 1000 || f.Rest() != 0 || f.Fetch(100, views) {
		t.Error("there are long frames")
	}
}
