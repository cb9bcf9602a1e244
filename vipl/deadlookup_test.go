package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLookupDead: on a link that somebody has closed under the NIC, before a
// lookup or in the midst of one, it fails at once and for that cause. It used to
// ask again without a pause, the NIC locked, until its time was up.
func TestLookupDead(t *testing.T) {
	for name, midst := range map[string]bool{"Before": false, "Midst": true} {
		t.Run(name, func(t *testing.T) {
			l, _ := memPair(1500)
			n, err := vipl.Open(t.Context(), &vipl.Config{Link: l, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			questions := 0
			l.onSend = func(f []byte) {
				var h ethertype.Header
				if _, err := h.Parse(f); err == nil && h.Kind == ethertype.KindQuery {
					questions++
				}
				l.dead = l.dead || questions == 2
			}
			l.dead = !midst
			ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
			defer cancel()
			_, err = n.Lookup(ctx, "nobody")
			if !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrClosed) {
				t.Errorf("%v, want ErrLink and what the link says", err)
			}
			if questions > 2 {
				t.Errorf("asked %d times", questions)
			}
		})
	}
}
