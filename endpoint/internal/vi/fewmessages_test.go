package vi

import (
	"runtime"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// notedHalf notes what it is given, by its number: now has it handled at once, or not.
type notedHalf struct {
	provider.Half
	number int
	now    func() bool
	noted  *[]int // of what was handled at once; what has to wait for its turn is negative
}

func (h *notedHalf) HandleNow(*provider.Packet) bool {
	if !h.now() {
		return false
	}
	*h.noted = append(*h.noted, h.number)
	return true
}

func (h *notedHalf) Received(*provider.Packet) { *h.noted = append(*h.noted, -h.number) }

// TestHandNow: of two messages that come together each is handled at once, or handed on, in order; the
// second one also if the first one's handler ends the goroutine, and not if it closes the
// channel.
func TestHandNow(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		first, second func() bool
		closes        bool
		noted         []int
		handled       int // -1: it does not return
	}{
		"both":             {yes, yes, false, []int{1, 2}, 2},
		"the first":        {yes, no, false, []int{1, -2}, 1},
		"none":             {no, no, false, []int{-1, -2}, 0},
		"the first closes": {yes, yes, true, []int{1}, 1},
		"the first exits":  {func() bool { runtime.Goexit(); return true }, yes, false, []int{-2}, -1},
	} {
		var noted []int
		var few fewMessages
		w := &Provider{}
		first := c.first
		if c.closes {
			first = func() bool { few[1].ch.closed = true; return true }
		}
		for i, now := range []func() bool{first, c.second} {
			h := wire.Header{Kind: wire.KindShort, Handler: 1}
			x := &receiveBuffer{mem: make([]byte, wire.SmallSize)}
			x.desc.Length = uint32(h.Put(x.mem))
			few[i].ch, few[i].x = &channel{way: w, up: &notedHalf{number: i + 1, now: now, noted: &noted}, full: wire.SmallSize}, x
		}
		handled, over := -1, make(chan bool)
		go func() {
			defer close(over)
			handled = few.handNow()
		}()
		<-over
		if !slices.Equal(noted, c.noted) || handled != c.handled {
			t.Errorf("%s: noted %d, want %d; %d handled, want %d", name, noted, c.noted, handled, c.handled)
		}
	}
}
