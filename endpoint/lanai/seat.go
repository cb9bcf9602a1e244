package lanai

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// seat is the driver's record of a program.
type seat struct {
	listener
	port   uint16
	life   uint32 // distinguishes it from earlier programs at the same port
	names  map[string]struct{}
	saying int // sayings that are not known to have arrived
}

// listener is how the driver reports to a program: a way of this process, or a program of another
// process. All calls are made with the engine's lock held.
type listener interface {
	told(e *end)                                                     // the card has reported something for an endpoint
	heard(what topic, from peerName, conn, life uint32, rest []byte) // another driver has sent a saying
	said(what topic, to peerKey, conn uint32, why wire.Reason)       // a saying of the program has arrived, or failed for a reason
	found(name string, at ethertype.Addr)                            // a name has been found
	attend(now int64) (next int64)                                   // do what is due, and return when to call again
}

// sit registers a program.
func (c *Card) sit(l listener) *seat {
	d := &c.driver
	for range 1 << 16 {
		if d.lastPort++; d.lastPort != 0 && d.programs[d.lastPort] == nil {
			break
		}
	}
	s := &seat{listener: l, port: d.lastPort, life: c.random(), names: map[string]struct{}{}}
	d.programs[s.port] = s
	return s
}

// user identifies the owner of a program or endpoint, among the users that share a card.
type user int64

// Users that are not users of other processes.
const (
	nobody user = -1 - iota // the driver
	ours                    // programs of this process
)

// userOf returns the user of a program. nil stands for the driver.
func userOf(l listener) user {
	switch p := l.(type) {
	case nil:
		return nobody
	case *visitor:
		return user(p.uid)
	}
	return ours
}
