package lanai

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// seat is the place of a program at the driver.
type seat struct {
	listener
	port   uint16
	life   uint32 // told from those before it at the same port
	names  map[string]struct{}
	saying int // what it has said to other drivers, and is not known to have arrived
}

// listener is a program as the driver speaks to it: a way of this process, or a program of
// another process. All calls are with the engine's lock held.
type listener interface {
	told(e *end)                                                     // the card has told an endpoint something
	heard(what topic, from peerName, conn, life uint32, rest []byte) // another driver has said something
	said(what topic, to peerKey, conn uint32, why wire.Reason)       // what the program has said has arrived, or not for a reason
	found(name string, at ethertype.Addr)                            // somebody has a name
	attend(now int64) (next int64)                                   // do what is due, and say when more is
}

// sit gives a program its place.
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

// user is whose program or endpoint something is, of those who share a card.
type user int64

// Users that are none of other processes.
const (
	nobody user = -1 - iota // the driver's own
	ours                    // of programs of this process
)

// userOf returns the user of a program, nil for the driver.
func userOf(l listener) user {
	switch p := l.(type) {
	case nil:
		return nobody
	case *visitor:
		return user(p.uid)
	}
	return ours
}
