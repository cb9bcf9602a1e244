package channels

import (
	"math"
	"math/bits"
)

// Sender is the send table of a card: a few logical channels to each card, each with at most one
// packet in flight (stop-and-wait). The caller keeps the packets; the table stores a number for
// each. The zero Sender needs Init. It is not safe for concurrent use, and does not allocate after
// Init.
type Sender struct {
	cfg     Config
	entries []sendEntry // by card and channel
	cards   []sendCard
	owners  []channelOwner
	nonce   uint32 // the last nonce
	under   int    // packets in flight
	next    int64  // time of the next scan
	cursor  scanCursor
	hurry   bool // a packet need not wait for its timeout
	stats   SenderCounters
}

// sendEntry is the sender's state of a channel.
type sendEntry struct {
	packet uint32
	epoch  uint32 // while init is set, a nonce of the sender
	stamp  uint32 // of the last transmission
	first  uint32 // of the packet's first transmission
	sentAt int64
	owner  uint16
	tries  uint8 // retransmissions since the last answer
	bit    uint8
	init   bool // the receiver has not assigned an epoch
	known  bool // the sequence is initialized: epoch is valid
	used   bool
	nacked bool // the last transmission has a NACK
	due    bool // retransmitted by the next scan, whatever its age
}

// sendCard is the state of a destination.
type sendCard struct {
	used uint32 // a bit for each channel with a packet
}

// channelOwner is the state of an endpoint.
type channelOwner struct {
	under    uint32 // packets in flight
	nacked   uint32 // of these, packets with a NACK for the last transmission
	draining bool
}

// Init resets s to a table without packets and without initialized sequences. A nil cfg means the
// defaults; Init panics if cfg.Validate returns an error.
//
// incarnation is the first nonce. It must be chosen so that this incarnation of the card does not
// reuse nonces of an earlier one: a random number, or the microseconds of a clock.
func (s *Sender) Init(cfg *Config, incarnation uint32) {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	r := cfg.Resolve()
	*s = Sender{
		cfg:     r,
		entries: make([]sendEntry, r.Cards*r.Channels),
		cards:   make([]sendCard, r.Cards),
		owners:  make([]channelOwner, r.Owners),
		nonce:   incarnation,
	}
}

// Free reports whether a channel to the card is free.
func (s *Sender) Free(card int) bool {
	return uint(card) < uint(len(s.cards)) && bits.OnesCount32(s.cards[card].used) < s.cfg.Channels
}

// Send binds a packet of an owner to a free channel, and returns the packet's header. The caller
// sends the packet, at now, and keeps it until the table reports that it has ended or was unbound.
// If there is no route to the card, the caller does not call Send and returns the message at once.
// Send panics if no channel is free or the owner is not one of Config.Owners.
func (s *Sender) Send(now int64, card, owner int, packet uint32) Header {
	if !s.Free(card) {
		panic("channels: Sender.Send without a free channel: call Free first")
	}
	channel := bits.TrailingZeros32(^s.cards[card].used)
	e := s.entry(card, channel)
	if !e.known {
		s.nonce++
		e.epoch, e.init, e.known = s.nonce, true, true
	}
	e.packet, e.owner, e.used = packet, uint16(owner), true
	e.first = e.stamp + 1
	e.tries, e.nacked, e.due = 0, false, false
	s.owners[owner].under++
	s.cards[card].used |= 1 << channel
	if s.under == 0 {
		s.next = now + s.cfg.Scan
	}
	s.under++
	s.stats.Sent++
	return s.transmit(now, channel, e)
}

// transmit records a transmission of a channel's packet.
func (s *Sender) transmit(now int64, channel int, e *sendEntry) Header {
	e.stamp++
	e.sentAt = now
	return Header{Channel: uint8(channel), Bit: e.bit, Init: e.init, Epoch: e.epoch, Stamp: e.stamp}
}

func (s *Sender) entry(card, channel int) *sendEntry {
	return &s.entries[card*s.cfg.Channels+channel]
}

// OnAnswer handles an ACK or NACK from a card. If it ends a packet, p describes that packet, and
// its channel is free. Otherwise p.End is NotEnded and the rest of p is undefined. Answers to
// packets that are no longer in flight, and answers that no correct receiver sends, are counted and
// ignored.
func (s *Sender) OnAnswer(card int, a Answer) (p Passage) {
	if !s.valid(card, &a) {
		s.stats.Invalid++
		return p
	}
	e := s.entry(card, int(a.Channel))
	if !e.answers(&a) {
		s.stats.Late++
		return p
	}
	s.stats.Answers[a.Kind]++
	e.tries = 0
	switch {
	case a.Kind == Ack:
		e.bit ^= 1
		return s.end(card, int(a.Channel), EndedAcked)
	case a.Kind == NackEpoch:
		s.Forget(card) // the receiver has lost all its channels: those without a packet must be initialized before the next
		return s.end(card, int(a.Channel), EndedRestarted)
	case a.Stamp != e.stamp && a.Kind != NackInit:
		return p // the result of the later transmission is not known yet
	case a.Kind.Refuses():
		return s.end(card, int(a.Channel), EndedRefused)
	}
	if a.Kind == NackInit {
		e.epoch, e.init, e.bit, e.due = a.Offer, false, 0, true
		s.hurry = true
	}
	if a.Stamp == e.stamp && !e.nacked {
		e.nacked = true
		s.owners[e.owner].nacked++
	}
	return p
}

// valid reports whether a names a channel and has a known kind.
func (s *Sender) valid(card int, a *Answer) bool {
	return uint(card) < uint(len(s.cards)) && int(a.Channel) < s.cfg.Channels && a.Kind != 0 && a.Kind < answerKinds
}

// Awaits reports whether a answers a transmission of a packet in flight to the card. Call it before
// OnAnswer. If so, the answering card has received that packet, and is alive.
func (s *Sender) Awaits(card int, a Answer) bool {
	return s.valid(card, &a) && s.entry(card, int(a.Channel)).answers(&a)
}

// answers reports whether a answers a transmission of the packet in flight. NackInit is the only
// answer to a packet without an epoch, and answers no other packet.
func (e *sendEntry) answers(a *Answer) bool {
	return e.used && a.Epoch == e.epoch && a.Init == e.init && (a.Kind == NackInit) == e.init && a.Bit == e.bit &&
		int32(a.Stamp-e.first) >= 0 && int32(e.stamp-a.Stamp) >= 0
}

// end frees a channel and returns its packet.
func (s *Sender) end(card, channel int, how Ended) Passage {
	e := s.entry(card, channel)
	p := Passage{Packet: e.packet, Owner: int(e.owner), Card: card, End: how}
	s.release(card, channel, e)
	s.stats.Ended[how]++
	return p
}

func (s *Sender) release(card, channel int, e *sendEntry) {
	o := &s.owners[e.owner]
	o.under--
	if e.nacked {
		o.nacked--
	}
	e.used, e.nacked, e.due = false, false, false
	s.cards[card].used &^= 1 << channel
	s.under--
}

// UnderWay returns the number of packets in flight to a card.
func (s *Sender) UnderWay(card int) int { return bits.OnesCount32(s.cards[card].used) }

// Deadline returns when to call Scan: math.MaxInt64 if no packet is in flight, and a time in the
// past during a scan or if a packet need not wait.
func (s *Sender) Deadline() int64 {
	switch {
	case s.under == 0:
		return math.MaxInt64
	case s.hurry || s.cursor.running:
		return math.MinInt64
	}
	return s.next
}
