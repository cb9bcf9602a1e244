package channels

// Receiver is the receive table of a card: the expected packets on each channel from each card. The
// zero Receiver needs Init. It is not safe for concurrent use, and does not allocate after Init.
type Receiver struct {
	cfg     Config
	entries []recvEntry // by card and channel
	epoch   uint32      // the last epoch assigned
	stats   ReceiverCounters
}

// recvEntry is the receiver's state of a channel.
type recvEntry struct {
	epoch uint32 // epoch of the sender's packets
	offer uint32 // epoch offered to the sender
	nonce uint32 // the sender's nonce for which offer, or epoch, was assigned
	stamp uint32 // of the last packet in epoch, whatever its result
	bit   uint8  // expected
	state recvState
}

// recvState is a set of bits.
type recvState uint8

const (
	recvKnown   recvState = 1 << iota // epoch is valid
	recvOffered                       // offer is valid
	recvNonce                         // nonce is valid
	recvHeld                          // a packet is being written to its endpoint
)

// Init resets r to a table without initialized channels. A nil cfg means the defaults; Init panics
// if cfg.Validate returns an error. For incarnation see Sender.Init.
func (r *Receiver) Init(cfg *Config, incarnation uint32) {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	c := cfg.Resolve()
	*r = Receiver{cfg: c, entries: make([]recvEntry, c.Cards*c.Channels), epoch: incarnation}
}

// ArrivalVerdict is what to do with a received packet.
type ArrivalVerdict uint8

// The verdicts on packets.
const (
	ArrivalNew    ArrivalVerdict = iota // try to write it to its endpoint, then call Accept or Refuse
	ArrivalAnswer                       // drop it, and send the answer
	ArrivalDrop                         // drop it
)

// Arrive takes the header of an intact packet from a card, and returns what to do with the packet.
// After ArrivalNew the channel is held until Accept or Refuse. Packets that arrive on the channel
// in the meantime are dropped, because the answer is valid for them as well.
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

// sequence judges a packet of the known epoch. A packet that was sent before one that has arrived
// is dropped. It can only come from a network that reorders or duplicates.
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

// initialise answers a packet whose sender has no epoch. The packet is not accepted, because it
// could be an old duplicate. Each nonce is offered one epoch, so that packets sent under an offer
// to an earlier nonce are refused. A nonce whose offer was used gets no further epoch.
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

// Accept records that the packet with the verdict ArrivalNew has been written to its endpoint, and
// returns the ACK to send.
func (r *Receiver) Accept(card int, channel uint8) Answer {
	e := r.held(card, channel)
	a := Answer{Header: e.header(channel), Kind: Ack}
	e.bit ^= 1
	r.stats.Answers[Ack]++
	return a
}

// Refuse records that the packet with the verdict ArrivalNew has not been written, and returns the
// NACK to send. kind is NackResident or a later constant.
func (r *Receiver) Refuse(card int, channel uint8, kind AnswerKind) Answer {
	if kind < NackResident || kind >= answerKinds {
		panic("channels: Receiver.Refuse with an invalid kind: want NackResident to NackNoEndpoint")
	}
	e := r.held(card, channel)
	r.stats.Answers[kind]++
	return Answer{Header: e.header(channel), Kind: kind}
}

// held returns the channel and releases it.
func (r *Receiver) held(card int, channel uint8) *recvEntry {
	e := r.entry(card, channel)
	if e == nil || e.state&recvHeld == 0 {
		panic("channels: no packet to accept or refuse: Arrive must return ArrivalNew first")
	}
	e.state &^= recvHeld
	return e
}

// Forget resets all channels from a card, because its number will belong to another card. Packets
// of the former card are answered by NackEpoch. None of its packets may be held.
func (r *Receiver) Forget(card int) {
	clear(r.entries[card*r.cfg.Channels:][:r.cfg.Channels])
}

// header returns the header of the last packet received with the expected bit.
func (e *recvEntry) header(channel uint8) Header {
	return Header{Channel: channel, Bit: e.bit, Epoch: e.epoch, Stamp: e.stamp}
}

func (r *Receiver) answer(h Header, kind AnswerKind) (ArrivalVerdict, Answer) {
	r.stats.Answers[kind]++
	return ArrivalAnswer, Answer{Header: h, Kind: kind}
}

// entry returns nil if the card or channel does not exist.
func (r *Receiver) entry(card int, channel uint8) *recvEntry {
	if uint(card) >= uint(r.cfg.Cards) || int(channel) >= r.cfg.Channels {
		return nil
	}
	return &r.entries[card*r.cfg.Channels+int(channel)]
}

// ReceiverCounters holds the counters of a receive table since Init.
type ReceiverCounters struct {
	Duplicates  uint64              `metric:"bobnet_amcard_duplicate_messages_total" help:"Duplicates of written messages, which were acknowledged again."`
	Held        uint64              // packets dropped while another was being written on their channel
	Stale       uint64              `metric:"bobnet_amcard_dropped_total" reason:"stale" help:"packets overtaken by a later one"`
	Initialised uint64              // initialized channels
	Invalid     uint64              // headers that no correct sender sends
	Answers     [answerKinds]uint64 // by AnswerKind
}

// Stats returns a snapshot of the counters.
func (r *Receiver) Stats() ReceiverCounters { return r.stats }
