package endpoint

import (
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// posts is a channel that notes how many messages those posted may go together with.
type posts struct {
	provider.Channel
	together *[]int
}

func (p posts) Post(_, _, together int) { *p.together = append(*p.together, together) }

// TestAnswerNext: an answer may wait for the program's next request if it is handled together with
// the last reply that the program waits for, be it at once or in its turn, and not else.
func TestAnswerNext(t *testing.T) {
	reply := wire.Header{Kind: wire.KindReply, Handler: 2, Slot: 1, Use: 7, Tag: pairTag}
	request := wire.Header{Kind: wire.KindShort, Handler: 1, Slot: 1, Use: 7, Tag: pairTag}
	for name, c := range map[string]struct {
		more   int // requests under way beside the one
		reply  bool
		atOnce bool
		want   int
	}{
		"with the last reply":          {0, true, false, provider.Next},
		"with the last reply, at once": {0, true, true, provider.Next},
		"with a reply":                 {1, true, false, 0},
		"with a reply, at once":        {1, true, true, 0},
		"alone":                        {0, false, false, 0},
		"alone, at once":               {0, false, true, 0},
	} {
		p := newPair(t)
		var together []int
		p.s.ch = posts{p.s.ch, &together}
		p.n.mu.Lock()
		p.waits(1)
		for range c.more {
			p.c.take(OpRequest)
		}
		p.n.atOnce = p.bundle
		if c.reply && (!c.atOnce || !p.c.HandleNow(p.packet(reply))) {
			p.c.Received(p.packet(reply))
		}
		if !c.atOnce || !p.s.HandleNow(p.packet(request)) {
			p.s.Received(p.packet(request))
		}
		p.bundle.serve(pollBatch)
		if !slices.Equal(together, []int{c.want}) || p.bundle.goesOn {
			t.Errorf("%s: together with %d, want %d", name, together, c.want)
		}
		p.n.mu.Unlock()
	}
}
