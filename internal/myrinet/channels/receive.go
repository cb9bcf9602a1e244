package channels

// Receiver is the receive table of a card: for each card that it hears, what is
// expected on each channel. The zero Receiver needs Init. It must not be used by two
// goroutines at a time, and allocates nothing after Init.
type Receiver struct {
	cfg     Config
	entries []recvEntry // by card and channel
	epoch   uint32      // the number that was given last
	stats   ReceiverCounters
}

// recvEntry is a channel, as its receiver sees it.
type recvEntry struct {
	epoch uint32 // what the sender's packets carry
	offer uint32 // what the sender may begin with
	nonce uint32 // the sender's number that offer answers, or that epoch answered
	stamp uint32 // of the last packet in epoch, whatever became of it
	bit   uint8  // expected
	state recvState
}

// recvState is a set of bits.
type recvState uint8

const (
	recvKnown   recvState = 1 << iota // there is an epoch
	recvOffered                       // there is an offer
	recvNonce                         // there is a nonce
	recvHeld                          // a packet is being written into its endpoint
)

// Init makes r a table in which no channel is initialised, and keeps no memory of the
// former. A nil cfg means the defaults; Init panics when cfg.Validate would return an
// error. For incarnation see Sender.Init.
func (r *Receiver) Init(cfg *Config, incarnation uint32) {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	c := cfg.Resolve()
	*r = Receiver{cfg: c, entries: make([]recvEntry, c.Cards*c.Channels), epoch: incarnation}
}

// ArrivalVerdict says what is to be done with a packet that has come.
type ArrivalVerdict uint8

// The verdicts on packets.
const (
	ArrivalNew    ArrivalVerdict = iota // try to write it into its endpoint, then call Accept or Refuse
	ArrivalAnswer                       // drop it, and send the answer
	ArrivalDrop                         // drop it
)

// Arrive takes the header of a packet that has come undamaged from a card, and says what
// is to be done with the packet. After ArrivalNew the channel is held until Accept or
// Refuse, which may take a while: what comes on it in the meantime is dropped, because
// their answer will do for it, too.
func (r *Receiver) Arrive(card int, h Header) (ArrivalVerdict, Answer) {
	e := r.entry(card, h.Channel)
	if e == nil || h.Bit > 1 {
		r.stats.Invalid++
		return ArrivalDrop, Answer{}
	}
	if h.Init {
		return r.initialise(e, h)
	}
	switch {
	case e.state&recvKnown != 0 && h.Epoch == e.epoch:
		return r.sequence(e, h)
	case e.state&recvHeld != 0:
		r.stats.Held++
		return ArrivalDrop, Answer{}
	case e.state&recvOffered != 0 && h.Epoch == e.offer:
		e.epoch, e.bit, e.stamp = h.Epoch, h.Bit, h.Stamp
		e.state = e.state&^recvOffered | recvKnown | recvHeld
		r.stats.Initialised++
		return ArrivalNew, Answer{}
	}
	return r.answer(h, NackEpoch)
}

// sequence judges a packet of the epoch that is known. What was sent before a packet that
// has come is older news: only a network that changes the order, or copies, brings it.
func (r *Receiver) sequence(e *recvEntry, h Header) (ArrivalVerdict, Answer) {
	if int32(h.Stamp-e.stamp) <= 0 {
		r.stats.Stale++
		return ArrivalDrop, Answer{}
	}
	if e.state&recvHeld != 0 {
		e.stamp = h.Stamp
		r.stats.Held++
		return ArrivalDrop, Answer{}
	}
	e.stamp = h.Stamp
	if h.Bit != e.bit {
		r.stats.Duplicates++
		return r.answer(h, Ack)
	}
	e.state |= recvHeld
	return ArrivalNew, Answer{}
}

// initialise answers a packet whose sender has no epoch. The packet is not taken: it could
// be one of long ago. An epoch is offered to each of the sender's numbers once, so that
// what was sent under an offer to an earlier one is refused. A number that has got its
// epoch already gets no other.
func (r *Receiver) initialise(e *recvEntry, h Header) (ArrivalVerdict, Answer) {
	if e.state&recvNonce == 0 || h.Epoch != e.nonce {
		r.epoch++
		e.nonce, e.offer = h.Epoch, r.epoch
		e.state |= recvNonce | recvOffered
	} else if e.state&recvOffered == 0 {
		r.stats.Stale++
		return ArrivalDrop, Answer{}
	}
	v, a := r.answer(h, NackInit)
	a.Offer = e.offer
	return v, a
}

// Accept says that the packet for which Arrive said ArrivalNew has been written into its
// endpoint, and returns the ACK to send.
func (r *Receiver) Accept(card int, channel uint8) Answer {
	e := r.held(card, channel)
	a := Answer{Header: e.header(channel), Kind: Ack}
	e.bit ^= 1
	r.stats.Answers[Ack]++
	return a
}

// Refuse says that the packet for which Arrive said ArrivalNew has not been written, and
// returns the NACK to send. kind is NackResident or one that follows it.
func (r *Receiver) Refuse(card int, channel uint8, kind AnswerKind) Answer {
	if kind < NackResident || kind >= answerKinds {
		panic("reliability: Receiver.Refuse for a reason that is none: want NackResident to NackNoEndpoint")
	}
	e := r.held(card, channel)
	r.stats.Answers[kind]++
	return Answer{Header: e.header(channel), Kind: kind}
}

// held returns the channel, no longer held.
func (r *Receiver) held(card int, channel uint8) *recvEntry {
	e := r.entry(card, channel)
	if e == nil || e.state&recvHeld == 0 {
		panic("reliability: Receiver has no packet to accept or refuse: Arrive must say ArrivalNew before")
	}
	e.state &^= recvHeld
	return e
}

// Forget has no channel of a card be initialised: its number is another card's from now on. What
// the former one sends is answered by NackEpoch. No packet of its may be held.
func (r *Receiver) Forget(card int) {
	clear(r.entries[card*r.cfg.Channels:][:r.cfg.Channels])
}

// header returns that of the last packet that has come, which bears the expected bit.
func (e *recvEntry) header(channel uint8) Header {
	return Header{Channel: channel, Bit: e.bit, Epoch: e.epoch, Stamp: e.stamp}
}

func (r *Receiver) answer(h Header, kind AnswerKind) (ArrivalVerdict, Answer) {
	r.stats.Answers[kind]++
	return ArrivalAnswer, Answer{Header: h, Kind: kind}
}

// entry returns nil for what is not in the table.
func (r *Receiver) entry(card int, channel uint8) *recvEntry {
	if uint(card) >= uint(r.cfg.Cards) || int(channel) >= r.cfg.Channels {
		return nil
	}
	return &r.entries[card*r.cfg.Channels+int(channel)]
}

// ReceiverCounters is what a receive table has counted since Init.
type ReceiverCounters struct {
	Duplicates  uint64              `metric:"bobnet_amcard_duplicate_messages_total" help:"Duplicates of written messages, which were acknowledged again."`
	Held        uint64              // packets that came while one was being written on their channel
	Stale       uint64              `metric:"bobnet_amcard_dropped_total" reason:"stale" help:"packets overtaken by a later one"`
	Initialised uint64              // channels that began anew
	Invalid     uint64              // headers that no sender would have made
	Answers     [answerKinds]uint64 // by AnswerKind
}

// Stats returns a snapshot of the counters.
func (r *Receiver) Stats() ReceiverCounters { return r.stats }
