package channels

import "math/bits"

// scanCursor is how far a scan has come.
type scanCursor struct {
	running bool
	card    int
	unseen  uint32 // channels of card that are still to be looked at
}

// Scan looks over all packets under way, and is the only thing that has packets sent
// again. Each call returns the next packet for which something is to be done: with End
// NotEnded it is to be sent again, at now, with the header in p; with EndedUnreachable
// its message is to be returned. more is false when the scan is over.
//
// The caller calls it when Deadline has come, each time that it can send one packet, until
// more is false; other calls may come between. A scan costs a look at each card, and at
// each channel of those with packets under way (SenderCounters.Looks).
func (s *Sender) Scan(now int64) (p Passage, more bool) {
	c := &s.cursor
	if !c.running {
		if s.under == 0 || now < s.next && !s.hurry {
			return p, false
		}
		s.hurry = false
		*c = scanCursor{running: true, unseen: s.cards[0].used}
		s.stats.Scans++
	}
	for {
		for c.unseen != 0 {
			channel := bits.TrailingZeros32(c.unseen)
			c.unseen &= c.unseen - 1
			s.stats.Looks++
			if p, ok := s.look(now, c.card, channel); ok {
				return p, true
			}
		}
		if c.card++; c.card == len(s.cards) {
			break
		}
		c.unseen = s.cards[c.card].used
	}
	*c = scanCursor{}
	s.next = now + s.cfg.Scan
	return p, false
}

// look decides what a scan does with one channel.
func (s *Sender) look(now int64, card, channel int) (p Passage, ok bool) {
	e := s.entry(card, channel)
	wait := s.cfg.Timeout
	if s.cfg.Backoff > 0 && !e.nacked {
		wait <<= min(int(e.tries)/s.cfg.Backoff, maxBackoff)
	}
	if !e.used || !e.due && now-e.sentAt < wait {
		return p, false
	}
	o := &s.owners[e.owner]
	if o.draining && e.nacked {
		return p, false
	}
	if int(e.tries) >= s.cfg.Tries {
		e.known = false
		return s.end(card, channel, EndedUnreachable), true
	}
	e.tries++
	if e.nacked {
		e.nacked = false
		o.nacked--
	}
	e.due = false
	s.stats.Again++
	p = Passage{Packet: e.packet, Owner: int(e.owner), Card: card}
	p.Header = s.transmit(now, channel, e)
	return p, true
}

// Drain begins the unloading of an endpoint: of its packets, those whose last
// transmission has a NACK no longer go again. The caller binds no new ones of it.
func (s *Sender) Drain(owner int) { s.owners[owner].draining = true }

// Drained reports whether each packet of an owner that is under way has a NACK for its
// last transmission, so that Unbind may take them all. That ends: what is not answered
// goes again, and in the end is returned. A NACK for an earlier transmission would not do:
// the ACK of the last one could come later, and would be taken for that of another packet.
func (s *Sender) Drained(owner int) bool {
	o := &s.owners[owner]
	return o.under == o.nacked
}

// Unbind takes a packet of an owner that has a NACK for its last transmission from its
// channel, and returns it: the channel is free, and its sequence is where it was, because
// the receiver has taken none of the packet's transmissions and will take none that is
// still under way. The packet may be sent again as a new one, by any channel, after a
// Resume. ok is false when there is none.
func (s *Sender) Unbind(owner int) (p Passage, ok bool) {
	if s.owners[owner].nacked == 0 {
		return p, false
	}
	card, channel := s.find(func(e *sendEntry) bool { return int(e.owner) == owner && e.nacked })
	e := s.entry(card, channel)
	p = Passage{Packet: e.packet, Owner: owner, Card: card}
	s.release(card, channel, e)
	s.stats.Unbound++
	return p, true
}

// Yield takes a packet to a card from its channel, as Unbind does, because others wait for one:
// of those that have a NACK for their last transmission the one that was sent longest ago, if
// that is a time between two looks of a scan at least. Where more endpoints have packets than a
// card can hold at a time, channels would else be kept by packets to those that are away. ok is
// false when there is none.
func (s *Sender) Yield(now int64, card int) (p Passage, ok bool) {
	found, oldest := -1, now-s.cfg.Scan
	for used := s.cards[card].used; used != 0; used &= used - 1 {
		channel := bits.TrailingZeros32(used)
		if e := s.entry(card, channel); e.nacked && !e.due && e.sentAt <= oldest {
			found, oldest = channel, e.sentAt
		}
	}
	if found < 0 {
		return p, false
	}
	e := s.entry(card, found)
	p = Passage{Packet: e.packet, Owner: int(e.owner), Card: card}
	s.release(card, found, e)
	s.stats.Yielded++
	return p, true
}

// Resume ends what Drain began: the endpoint is not unloaded, or is back.
func (s *Sender) Resume(owner int) { s.owners[owner].draining = false }

// Abandon ends a packet of an owner without waiting for an answer: the owner is gone. The
// channel's sequence is uninitialised then. ok is false when there is none.
func (s *Sender) Abandon(owner int) (p Passage, ok bool) {
	if s.owners[owner].under == 0 {
		return p, false
	}
	return s.abandon(s.find(func(e *sendEntry) bool { return int(e.owner) == owner })), true
}

// AbandonCard ends a packet to a card without waiting for an answer, as Abandon does: there
// is no route to the card any more. ok is false when there is none.
func (s *Sender) AbandonCard(card int) (p Passage, ok bool) {
	if s.cards[card].used == 0 {
		return p, false
	}
	return s.abandon(card, bits.TrailingZeros32(s.cards[card].used)), true
}

// Forget makes all sequences to a card uninitialised: the card has lost its state, or its number is another
// card's from now on. Packets that are under way end as they would have.
func (s *Sender) Forget(card int) {
	for channel := range s.cfg.Channels {
		s.entry(card, channel).known = false
	}
}

func (s *Sender) abandon(card, channel int) Passage {
	s.entry(card, channel).known = false
	return s.end(card, channel, EndedAbandoned)
}

// find returns the first channel in use for which want holds. There must be one.
func (s *Sender) find(want func(*sendEntry) bool) (card, channel int) {
	for card := range s.cards {
		for used := s.cards[card].used; used != 0; used &= used - 1 {
			channel := bits.TrailingZeros32(used)
			if want(s.entry(card, channel)) {
				return card, channel
			}
		}
	}
	panic("reliability: the send table counts packets that it does not have")
}

// SenderCounters is what a send table has counted since Init.
type SenderCounters struct {
	Sent    uint64              // packets bound to a channel
	Again   uint64              `metric:"bobnet_vmmccard_retransmissions_total" help:"Packets retransmitted."`
	Scans   uint64              // scans begun
	Looks   uint64              // channels that scans have looked at
	Unbound uint64              // packets taken from their channels by Unbind
	Yielded uint64              // and by Yield
	Late    uint64              // answers to packets that were not under way any more
	Invalid uint64              // answers that no receiver would have sent
	Answers [answerKinds]uint64 // by AnswerKind
	Ended   [endedKinds]uint64  // by Ended
}

// Stats returns a snapshot of the counters.
func (s *Sender) Stats() SenderCounters { return s.stats }
