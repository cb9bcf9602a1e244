package seal

import (
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/stations"
)

// TestTroublesAge: a stranger who seems to be many stations keeps what is wrong with a real one
// from being said for a minute, not for ever; and however many he seems to be, there are no more
// lines in a minute than there are places.
func TestTroublesAge(t *testing.T) {
	a, b := newStation(t, 1, Options{}, keyOf(1)), newStation(t, 2, Options{}, keyOf(2))
	forged := a.plain(b, "no key")
	forge := func(n int, now int64) {
		b.logs.Flush(10 * time.Second) // which keeps as many lines as one call logs
		for i := range n {
			forged[framing.OffsetSrc+1], forged[framing.OffsetSrc+2], forged[framing.OffsetSrc+3] = 9, byte(i), byte(i>>8)
			b.hear([][]byte{forged}, now)
		}
	}
	said := func() int { return strings.Count(b.said(), "\n") }
	now := int64(10)
	forge(2*maxTroubles, now)
	if said() != maxTroubles || b.troubles.by.Len() != maxTroubles {
		t.Fatalf("%d lines, and %d stations are known, want %d", said(), b.troubles.by.Len(), maxTroubles)
	}
	talk := func() string {
		b.hear(a.send(a.plain(b, "x"), now), now)
		if hello := a.peers.find(b.self, 1031).attempt; hello != nil { // it asks again
			b.hear([][]byte{hello.frame}, now)
		}
		return b.hint(a.self)
	}
	now += stations.KnownFor - 1
	if hint := talk(); hint != "" {
		t.Errorf("a station is known for which there was no place: %s", hint)
	}
	now++
	if hint := talk(); !strings.Contains(hint, troubleOtherKey.String()) || !strings.Contains(b.said(), troubleOtherKey.String()) {
		t.Errorf("a minute later there is no place still: %q", hint)
	}
	before := said()
	for range 600 { // ten minutes of strangers who are others each time
		now += stations.KnownFor / 60
		for i := range forged[framing.OffsetSrc+4 : framing.OffsetSrc+6] {
			forged[framing.OffsetSrc+4+i] = byte(now >> (30 + 8*i))
		}
		forge(2*maxTroubles, now)
	}
	if n := said() - before; n > 11*maxTroubles || n < 9*maxTroubles || b.troubles.by.Len() > maxTroubles {
		t.Errorf("%d lines in ten minutes, and %d stations are known, of which there are to be %d", n, b.troubles.by.Len(), maxTroubles)
	}
}
