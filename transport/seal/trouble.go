package seal

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
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
// them. Anybody on the segment can make them more, so they decide nothing. When there are too
// many, those are forgotten of whom nothing has been said for a while, so that forged ones take
// the place of others for a minute, and there are no more lines in one than places.
type troubles struct {
	by     map[ethertype.MAC]*troubled
	full   int64  // until when no place becomes free
	budget budget // of answers
}

type troubled struct {
	what   trouble
	logged int64 // when it was last said
}

// logEvery is how often a station's trouble is said.
const logEvery = int64(time.Minute)

// note remembers what is wrong with a station, and says so if it has not lately.
func (m *machine) note(mac ethertype.MAC, what trouble, now int64) {
	t := m.troubles.by[mac]
	switch {
	case t == nil && !m.troubles.room(now):
		return
	case t == nil:
		t = &troubled{}
		m.troubles.by[mac] = t
	case t.what == what && now-t.logged < logEvery:
		return
	}
	t.what, t.logged = what, now
	m.opts.Logger.Warn("a station is not understood", "station", mac, "why", what.String())
}

// room reports whether there is a place for one more station.
func (t *troubles) room(now int64) bool {
	if len(t.by) < maxTroubles {
		return true
	}
	if now < t.full {
		return false
	}
	t.full = now + logEvery
	for mac, o := range t.by {
		if free := o.logged + logEvery; free <= now {
			delete(t.by, mac)
		} else {
			t.full = min(t.full, free)
		}
	}
	return len(t.by) < maxTroubles
}

// hint says what is known to be wrong with a station, "" if nothing is.
func (m *machine) hint(mac ethertype.MAC) string {
	if t := m.troubles.by[mac]; t != nil {
		return fmt.Sprintf("%v: %v", mac, t.what)
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
