package lanai

import (
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/untaken"
)

// Limits of the received control messages that wait until a program handles them. The program's process may be idle
// for a long time, and other drivers may send any number of control messages meanwhile.
const (
	mostUntaken = 8 << 20 // bytes, in addition to the guaranteed part of each program that this one has contacted
	untakenCost = 192     // bytes that a control message counts in addition to its body
	mostMet     = 512     // minimum number of contacted programs that a program remembers
)

// seat is the driver's record of a program.
type seat struct {
	listener
	met     met             // remote programs that this one has contacted
	untaken untaken.Account // received control messages that the program has not handled
	port    uint16
	life    uint32 // distinguishes it from earlier programs at the same port
	names   map[string]struct{}
	saying  int // sent control messages without an outcome yet
}

// listener is the interface through which the driver reports to a program: a way of this process, or a program of
// another process. All calls are made with the engine's lock held.
type listener interface {
	told(e *end)                                                     // the card has reported something for an endpoint
	heard(what topic, from peerName, conn, life uint32, rest []byte) // a control message for the program has arrived
	stopped() bool                                                   // too many unread messages wait for the program
	said(what topic, to peerKey, conn uint32, why wire.Reason)       // the outcome of a control message that the program sent: why is 0 if it has arrived
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
	s := &seat{listener: l, port: d.lastPort, life: c.random(), names: map[string]struct{}{}, untaken: untaken.Account{Most: mostUntaken}}
	d.programs[s.port] = s
	return s
}

// hear passes a received control message to a program if there is room for it. Senders that the program has not
// contacted share half of the room. If there is no room for a connection request, the driver refuses the connection.
// If there is no room for an accept, the driver responds that the connection has ended. It drops other messages: their
// senders get the same information by their next inquiry.
func (s *seat) hear(d *driver, what topic, from peerName, conn, life uint32, rest []byte) {
	key := peerKey{from.mac, from.port}
	if !s.stopped() && s.untaken.Message(ethertype.Addr{MAC: key.mac, Port: key.port}, untakenCost+len(rest)*4/3, !s.met.has(key)) {
		s.heard(what, from, conn, life, rest)
		return
	}
	d.prog.stats.Unheard++
	switch what {
	case sayOpen:
		d.say(sayRefuse, from, nil, 0, pair(conn, uint32(wire.ReasonCongestion))...)
	case sayAccept:
		d.say(sayGone, from, nil, 0, pair(conn, 0)...)
	}
}

// met is the set of remote programs that a program has contacted: at least the last mostMet of them, and at most
// twice that number.
type met struct{ last, before map[peerKey]struct{} }

func (m *met) add(key peerKey) {
	if _, has := m.last[key]; has {
		return
	}
	if m.last == nil || len(m.last) == mostMet {
		m.last, m.before = map[peerKey]struct{}{}, m.last
	}
	m.last[key] = struct{}{}
}

func (m *met) has(key peerKey) bool {
	_, last := m.last[key]
	_, before := m.before[key]
	return last || before
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
