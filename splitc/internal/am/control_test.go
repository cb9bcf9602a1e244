package am

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// hearer keeps what it is told.
type hearer struct{ heard []string }

func (h *hearer) Call(int, uint32, []byte, []byte) int { return 0 }
func (h *hearer) Control(from int, msg []byte) {
	h.heard = append(h.heard, fmt.Sprint(from, " ", string(msg)))
}

// deaf allocates nothing.
type deaf struct{}

func (deaf) Call(int, uint32, []byte, []byte) int { return 0 }
func (deaf) Control(int, []byte)                  {}

// TestInTurn: control messages of a rank are handed on in the order of their numbers, which
// wrap; those that cannot be are refused, and so is a second one of a number.
func TestInTurn(t *testing.T) {
	const first = ^uint32(0) - 2
	h := &hearer{}
	l := &Layer{cfg: layer.Config{Handler: h}, talks: make([]talk, 3)}
	l.talks[2].due = first
	for _, c := range []struct {
		number uint32 // from first on
		ok     bool
	}{{1, true}, {1, false}, {0, true}, {0, false}, {5, true}, {4, true}, {3, true}, {6, false}, {2, true}, {7, true}, {6, true}, {12, false}} {
		if ok := l.inTurn(2, first+c.number, fmt.Appendf(nil, "%d", c.number)); ok != c.ok {
			t.Errorf("message %d: taken is %v, want %v", c.number, ok, c.ok)
		}
	}
	if want := []string{"2 0", "2 1", "2 2", "2 3", "2 4", "2 5", "2 6", "2 7"}; !slices.Equal(h.heard, want) {
		t.Errorf("heard %q, want %q", h.heard, want)
	}
	l.cfg.Handler = deaf{}
	if n := testing.AllocsPerRun(10, func() {
		p := &l.talks[2]
		l.inTurn(2, p.due+1, nil)
		l.inTurn(2, p.due, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLongControl: a control message longer than any is a stray, whoever it says it is of: it
// is not looked at.
func TestLongControl(t *testing.T) {
	h := &hearer{}
	l := &Layer{cfg: layer.Config{Handler: h, Procs: 3}, talks: make([]talk, 3), controls: 1}
	for _, way := range []controlWay{said, asked, told} {
		if l.controlMedium(way)(endpoint.Token{}, []uint32{2, 0}, make([]byte, layer.MaxControl+1)) || len(h.heard) > 0 || l.controls != 1 {
			t.Errorf("way %d: one of %d bytes was taken", way, layer.MaxControl+1)
		}
	}
}
