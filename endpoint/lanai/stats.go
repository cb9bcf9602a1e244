package lanai

import (
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Stats counts what a card's control program and driver have done.
type Stats struct {
	Sent, Again uint64 // packets of messages; of these, by the scan
	Delivered   uint64 // messages that were written into endpoints
	Returned    uint64 // that came back because nobody has answered
	Refused     uint64 // that came back because a card has refused them
	Unroutable  uint64 // that came back because there is no route
	Loads       uint64 // of endpoints into frames
	Unloads     uint64
	Faults      uint64 // endpoints that were wanted in a frame, staging areas that were not pinned
	Turns       uint64 // of frames, to send
	Loitered    uint64 // attempts to send while there was nothing

	Nacked [reliability.NackNoEndpoint + 1]uint64 // packets, by the answer

	BadEntries   uint64 // entries of send queues that make no sense: the message came back
	Privileged   uint64 // messages of a program that speaks as a driver, or to one, which were refused
	BadTags      uint64 // messages with another tag than their endpoint's
	Forged       uint64 // messages for a connection of somebody else
	Malformed    uint64 // packets dropped: no card sends such
	Misdelivered uint64 // packets dropped: for another card
	Strangers    uint64 // packets dropped: from more cards than the table holds
	NoRoute      uint64 // answers dropped: there is no route
}

// Snapshot is what a card is like at a moment.
type Snapshot struct {
	Card      myrinet.CardSnapshot
	Cable     *myrinet.LivePort // nil in virtual time, where it is the fabric's
	Stats     Stats
	Sends     reliability.SendChannelCounters
	Receives  reliability.RecvChannelCounters
	Endpoints int // but for the driver's
	Resident  int // of these, in frames
	Waiting   int // for a frame
	Pinned    int // octets of staging areas
	Cards     int // that it has spoken with, or has routes to
}

// Snapshot returns what the card is like now.
func (c *Card) Snapshot() Snapshot {
	c.lock()
	defer c.unlock()
	p, d := &c.prog, &c.driver
	s := Snapshot{Card: c.card.Snapshot(), Stats: p.stats, Sends: p.sends.Stats(), Receives: p.recvs.Stats(),
		Endpoints: len(d.by) - 1, Waiting: d.load.Len(), Pinned: d.pinned, Cards: p.peers.n - 1, Cable: c.via.port()}
	s.Stats.Faults = d.faults
	for i := range p.frames {
		if f := &p.frames[i]; f.end != nil && !f.end.privileged() {
			s.Resident++
		}
	}
	return s
}
