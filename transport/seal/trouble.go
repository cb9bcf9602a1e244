package seal

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/stations"
)

// trouble is a reason why the frames of a station cannot be opened.
type trouble uint8

const (
	troubleUnsealed trouble = iota + 1 // the station has no key
	troubleOtherKey                    // it has another key
	troubleRefused                     // it reports that it cannot open this station's frames
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

// troubles records stations whose frames cannot be opened, as many as a person can read about.
type troubles struct {
	by     stations.Table[trouble]
	budget budget // bounds the notices
}

// note records a reason for a station, and logs it unless it was logged recently.
func (m *machine) note(mac ethertype.MAC, what trouble, now int64) {
	if before, at, ok := m.troubles.by.Get(mac); ok && before == what && now-at < stations.KnownFor {
		return
	}
	if m.troubles.by.Note(mac, what, now) {
		m.opts.Logger.Warn("no common key with a station", "station", mac, "why", what.String())
	}
}

// hint describes what is known to be wrong with a station, or returns "".
func (m *machine) hint(mac ethertype.MAC) string {
	if what, _, ok := m.troubles.by.Get(mac); ok {
		return fmt.Sprintf("%v: %v", mac, what)
	}
	return ""
}

// A budget is a rate limit for work that strangers can cause: a burst, and a number per second.
type budget struct {
	tokens int64 // in nanoseconds; budgetEach for each use
	at     int64
}

const (
	budgetAtOnce = 64
	budgetEach   = int64(5 * time.Millisecond)
)

// spend consumes one use, and reports whether one was left.
func (b *budget) spend(now int64) bool {
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
