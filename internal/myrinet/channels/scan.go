package channels

import "math/bits"

// scanCursor is the progress of a scan.
type scanCursor struct {
	running bool
	card    int
	unseen  uint32 // channels of card that are not yet scanned
}

// Scan scans the packets in flight; nothing else causes retransmissions. Each call returns the next
// packet that needs an action. With End NotEnded, the caller retransmits it, at now, with the
// header in p; with EndedUnreachable, the caller returns its message. more is false when the scan
// is complete.
//
// The caller calls Scan when Deadline has come, each time that it can send one packet, until more
// is false. Other methods may be called in between. A scan looks at each card, and at each channel
// of cards with packets in flight (SenderCounters.Looks).
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

// Drain prepares the unloading of an endpoint: its packets whose last transmission has a NACK are
// no longer retransmitted. The caller must not send new packets of the endpoint.
func (s *Sender) Drain(owner int) { s.owners[owner].draining = true }

// Drained reports whether each packet in flight of an owner has a NACK for its last transmission,
// so that Unbind can take all of them. This happens eventually: unanswered packets are
// retransmitted, and in the end returned. A NACK for an earlier transmission is not sufficient: the
// ACK of the last transmission could arrive later and be taken for that of another packet.
func (s *Sender) Drained(owner int) bool {
	o := &s.owners[owner]
	return o.under == o.nacked
}

// Unbind takes a packet of an owner that has a NACK for its last transmission from its channel, and
// returns it. The channel is free, and its sequence has not advanced, because the receiver has
// accepted none of the packet's transmissions and will accept none. After Resume the packet may be
// sent again as a new one, on any channel. ok is false if there is no such packet.
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

// Yield takes a packet to a card from its channel, like Unbind, because other packets wait for a
// channel. It takes the oldest transmission that has a NACK and was sent at least one scan interval
// ago. If more endpoints have packets than a card can hold, packets to non-resident endpoints would
// otherwise keep the channels. ok is false if there is no such packet.
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

// Resume ends Drain: the endpoint stays loaded, or is loaded again.
func (s *Sender) Resume(owner int) { s.owners[owner].draining = false }

// Abandon ends a packet of an owner without waiting for an answer, because the owner has ended. The
// channel must be initialized again. ok is false if the owner has no packet in flight.
func (s *Sender) Abandon(owner int) (p Passage, ok bool) {
	if s.owners[owner].under == 0 {
		return p, false
	}
	return s.abandon(s.find(func(e *sendEntry) bool { return int(e.owner) == owner })), true
}

// AbandonCard is Abandon for a packet to a card, because there is no longer a route to the card. ok
// is false if there is no packet in flight.
func (s *Sender) AbandonCard(card int) (p Passage, ok bool) {
	if s.cards[card].used == 0 {
		return p, false
	}
	return s.abandon(card, bits.TrailingZeros32(s.cards[card].used)), true
}

// Forget resets the sequences of all channels to a card, because the card has lost its state or its
// number will belong to another card. Packets in flight end as usual.
func (s *Sender) Forget(card int) {
	for channel := range s.cfg.Channels {
		s.entry(card, channel).known = false
	}
}

func (s *Sender) abandon(card, channel int) Passage {
	s.entry(card, channel).known = false
	return s.end(card, channel, EndedAbandoned)
}

// find returns the first channel in use for which want is true. There must be one.
func (s *Sender) find(want func(*sendEntry) bool) (card, channel int) {
	for card := range s.cards {
		for used := s.cards[card].used; used != 0; used &= used - 1 {
			channel := bits.TrailingZeros32(used)
			if want(s.entry(card, channel)) {
				return card, channel
			}
		}
	}
	panic("channels: the send table counts more packets than it holds")
}

// SenderCounters holds the counters of a send table since Init.
type SenderCounters struct {
	Sent    uint64              // packets bound to a channel
	Again   uint64              `metric:"bobnet_vmmccard_retransmissions_total" help:"Packets retransmitted."`
	Scans   uint64              // scans started
	Looks   uint64              // channels scanned
	Unbound uint64              // packets taken from their channels by Unbind
	Yielded uint64              // packets taken from their channels by Yield
	Late    uint64              // answers to packets that were no longer in flight
	Invalid uint64              // answers that no correct receiver sends
	Answers [answerKinds]uint64 // by AnswerKind
	Ended   [endedKinds]uint64  // by Ended
}

// Stats returns a snapshot of the counters.
func (s *Sender) Stats() SenderCounters { return s.stats }
