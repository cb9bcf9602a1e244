package seal

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/stations"
)

// trouble is what is wrong with the frames of a station.
type trouble uint8

const (
	troubleUnsealed trouble = iota + 1 // it has no key
	troubleOtherKey                    // it has another
	troubleRefused                     // it says that it cannot open ours
)

func (t trouble) String() string {
	switch t {
	case troubleUnsealed:
		return "its frames are not sealed: it has no key"
	case troubleOtherKey:
		return "its frames cannot be opened: it has another key"
	}
	return "it cannot open our frames: it has another key or none"
}

// troubles knows the stations that are not understood: so many that a person can read of
// them.
type troubles struct {
	by     stations.Table[trouble]
	budget budget // of answers
}

// note remembers what is wrong with a station, and says so if it has not lately.
func (m *machine) note(mac ethertype.MAC, what trouble, now int64) {
	if before, at, ok := m.troubles.by.Get(mac); ok && before == what && now-at < stations.KnownFor {
		return
	}
	if m.troubles.by.Note(mac, what, now) {
		m.opts.Logger.Warn("no common key with a station", "station", mac, "why", what.String())
	}
}

// hint says what is known to be wrong with a station, "" if nothing is.
func (m *machine) hint(mac ethertype.MAC) string {
	if what, _, ok := m.troubles.by.Get(mac); ok {
		return fmt.Sprintf("%v: %v", mac, what)
	}
	return ""
}

// A budget bounds how often something is done for whoever asks: so many times at once, and
// so many in a second.
type budget struct {
	tokens int64 // nanoseconds of budgetEach
	at     int64
}

const (
	budgetAtOnce = 64
	budgetEach   = int64(5 * time.Millisecond)
)

// take reports whether it may be done now.
func (b *budget) take(now int64) bool {
	if b.at == 0 {
		b.tokens = budgetAtOnce * budgetEach
	} else {
		b.tokens = min(b.tokens+now-b.at, budgetAtOnce*budgetEach)
	}
	if b.at = now; b.tokens < budgetEach {
		return false
	}
	b.tokens -= budgetEach
	return true
}
