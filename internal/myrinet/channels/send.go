package channels

import (
	"math"
	"math/bits"
)

// Sender is the send table of a card: for each card that it sends to, a few logical
// channels, each with at most one packet under way (stop and wait). The caller keeps the
// packets; the table has a pointer to each. The zero Sender needs Init. It must not
// be used by two goroutines at a time, and allocates nothing after Init.
type Sender struct {
	cfg     Config
	entries []sendEntry // by card and channel
	cards   []sendCard
	owners  []channelOwner
	nonce   uint32 // the number that was drawn last
	under   int    // packets under way
	next    int64  // when the next scan is due
	cursor  scanCursor
	hurry   bool // a packet need not wait for its time-out
	stats   SenderCounters
}

// sendEntry is a channel, as its sender sees it.
type sendEntry struct {
	packet uint32
	epoch  uint32 // as long as init is set, a number of the sender's own
	stamp  uint32 // of the last transmission
	first  uint32 // of the first transmission of the packet
	sentAt int64
	owner  uint16
	tries  uint8 // transmissions again without an answer
	bit    uint8
	init   bool // the receiver has not named an epoch yet
	known  bool // epoch is a number: the sequence is not uninitialised
	used   bool
	nacked bool // the last transmission has a NACK
	due    bool // goes again at the next scan, whatever its time
}

// sendCard is what the table has for a destination.
type sendCard struct {
	used uint32 // a bit for each channel with a packet
}

// channelOwner is an endpoint, as far as channels know it.
type channelOwner struct {
	under    uint32 // packets under way
	nacked   uint32 // of these, with a NACK for the last transmission
	draining bool
}

// Init makes s a table without packets in which every sequence is uninitialised, and
// keeps no memory of the former. A nil cfg means the defaults; Init panics when
// cfg.Validate would return an error.
//
// incarnation is where the numbers begin by which the channels are initialised. It must
// be such that this life of the card uses none that an earlier one has used, as a random
// number or the microseconds of a clock are.
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

// Send binds a packet of an owner to a channel that Free has reported, and returns what
// it carries. The caller sends it, at now, and keeps it until the table says that it has
// ended or was unbound. Where there is no route to the card the caller does not call
// Send: the message returns at once. Send panics when no channel is free or the owner is
// not one of Config.Owners.
func (s *Sender) Send(now int64, card, owner int, packet uint32) Header {
	if !s.Free(card) {
		panic("channels: Sender.Send without a free channel: ask Free before")
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

// transmit notes that the packet of a channel is sent.
func (s *Sender) transmit(now int64, channel int, e *sendEntry) Header {
	e.stamp++
	e.sentAt = now
	return Header{Channel: uint8(channel), Bit: e.bit, Init: e.init, Epoch: e.epoch, Stamp: e.stamp}
}

func (s *Sender) entry(card, channel int) *sendEntry {
	return &s.entries[card*s.cfg.Channels+channel]
}

// OnAnswer takes an ACK or NACK that has come from a card. When a packet has ended by it,
// p says which, and how: its channel is free. Otherwise p.End is NotEnded and says nothing
// else. Answers to packets that are no longer under way are counted and ignored, and so
// are those that no receiver would have sent.
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
		s.Forget(card) // the receiver knows none of its channels: those without a packet initialise before they carry one
		return s.end(card, int(a.Channel), EndedRestarted)
	case a.Stamp != e.stamp && a.Kind != NackInit:
		return p // what becomes of the transmission after it is not known yet
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

// valid reports whether a names a channel, and an answer.
func (s *Sender) valid(card int, a *Answer) bool {
	return uint(card) < uint(len(s.cards)) && int(a.Channel) < s.cfg.Channels && a.Kind != 0 && a.Kind < answerKinds
}

// Awaits reports whether a is an answer to a transmission of a packet that is under way to a
// card, before OnAnswer has taken it: who has sent it has got that packet, and so lives.
func (s *Sender) Awaits(card int, a Answer) bool {
	return s.valid(card, &a) && s.entry(card, int(a.Channel)).answers(&a)
}

// answers reports whether a is an answer to a transmission of the packet that is under
// way. Only a packet that carries no epoch yet can be answered by NackInit, and it by
// nothing else.
func (e *sendEntry) answers(a *Answer) bool {
	return e.used && a.Epoch == e.epoch && a.Init == e.init && (a.Kind == NackInit) == e.init && a.Bit == e.bit &&
		int32(a.Stamp-e.first) >= 0 && int32(e.stamp-a.Stamp) >= 0
}

// end frees a channel and returns the packet that it had.
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

// UnderWay returns how many packets are under way to a card.
func (s *Sender) UnderWay(card int) int { return bits.OnesCount32(s.cards[card].used) }

// Deadline returns when Scan is to be called: math.MaxInt64 when no packet is under way,
// and a time that has passed while a scan is under way or a packet need not wait.
func (s *Sender) Deadline() int64 {
	switch {
	case s.under == 0:
		return math.MaxInt64
	case s.hurry || s.cursor.running:
		return math.MinInt64
	}
	return s.next
}
