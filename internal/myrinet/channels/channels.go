package channels

import (
	"errors"
	"fmt"
)

// Config sets the sizes of a card's channel tables and the timeouts of its channels. A nil *Config
// and every zero field mean the default. All cards of a network must have the same Channels.
type Config struct {
	// Cards is the number of cards, numbered from 0; default 256.
	Cards int

	// Channels is the number of channels from one card to another, and so the number of packets
	// that may be in flight between them; default 4, at most 32.
	Channels int

	// Owners is the number of packet owners, numbered from 0: the endpoints of a card, resident or
	// not. Default 256.
	Owners int

	// Timeout is the time in nanoseconds after which a packet is retransmitted if it has no answer
	// or only a NACK; default 16 ms.
	Timeout int64

	// Scan is the interval in nanoseconds between scans of the packets in flight; default
	// Timeout/4. A packet is retransmitted by the first scan after its Timeout.
	Scan int64

	// Tries is the number of retransmissions without any answer after which a message is returned;
	// default 255, which takes 4 to 5 s with the default Timeout, and 17 s with Backoff.
	Tries int

	// Backoff is the number of unanswered transmissions after which the interval between
	// transmissions doubles, up to four times Timeout; 0 means never, as in the paper. It is for
	// cards whose processor is a process that may have to wait for a CPU.
	Backoff int
}

const (
	maxChannels = 32                // upper limit of Config.Channels
	maxBackoff  = 2                 // how often the interval between transmissions can double
	maxTime     = 3_600_000_000_000 // upper limit of times, in nanoseconds, so that no sum of times overflows
)

var errConfig = errors.New("channels: configuration is out of range")

var defaults = Config{
	Cards:    256,
	Channels: 4,
	Owners:   256,
	Timeout:  16_000_000,
	Tries:    255,
}

// Resolve returns c with all defaults filled in. c may be nil.
func (c *Config) Resolve() Config {
	if c == nil {
		c = &Config{}
	}
	r := *c
	fill(&r.Cards, defaults.Cards)
	fill(&r.Channels, defaults.Channels)
	fill(&r.Owners, defaults.Owners)
	fill(&r.Timeout, defaults.Timeout)
	fill(&r.Scan, max(r.Timeout/4, 1))
	fill(&r.Tries, defaults.Tries)
	return r
}

func fill[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate returns an error that names the field if a value of c is out of range. c may be nil.
func (c *Config) Validate() error {
	r := c.Resolve()
	for _, f := range []struct {
		name          string
		value, lo, hi int64
	}{
		{"Cards", int64(r.Cards), 1, 1 << 16},
		{"Channels", int64(r.Channels), 1, maxChannels},
		{"Owners", int64(r.Owners), 1, 1 << 16},
		{"Timeout", r.Timeout, 1, maxTime},
		{"Scan", r.Scan, 1, maxTime},
		{"Tries", int64(r.Tries), 1, 255},
		{"Backoff", int64(r.Backoff), 0, 255},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%w: %s is %d: want %d to %d, or 0 for the default",
				errConfig, f.name, f.value, f.lo, f.hi)
		}
	}
	return nil
}

// Sizes, in bytes, of the entries of the two tables in a card's memory, and of the part of the send
// table for each destination and each owner.
const (
	sendEntrySize = 28 // packet, epoch, two stamps, time, owner, retries, state: 4+4+4+4+8+2+1+1
	recvEntrySize = 20 // epoch, offer, nonce, stamp, state: 4+4+4+4+4
	sendCardSize  = 4  // channels in use
	ownerSize     = 12 // packets in flight, of these with the latest NACK, state: 4+4+4
)

// Size returns how many bytes of a card's memory the send and receive tables of c occupy together.
// c may be nil.
func (c *Config) Size() int {
	r := c.Resolve()
	return r.Cards*(sendCardSize+r.Channels*(sendEntrySize+recvEntrySize)) + r.Owners*ownerSize
}

// Header is what a packet carries for its channel; its answer echoes it. It needs ten bytes on the
// wire: one for Channel, Bit and Init, one for the caller, and four each for Epoch and Stamp.
type Header struct {
	Channel uint8  // among the channels from the sending to the receiving card
	Bit     uint8  // 0 or 1; alternates from message to message
	Init    bool   // the sender has no epoch: Epoch is a nonce of the sender
	Epoch   uint32 // assigned by the receiver when the channel is initialized
	Stamp   uint32 // number of the transmission on this channel
}

// Answer is an ACK or NACK.
type Answer struct {
	Header            // of the answered packet
	Kind   AnswerKind // the result
	Offer  uint32     // of NackInit: an epoch for the sender
}

// AnswerKind is what a receiver did with a packet.
type AnswerKind uint8

// The kinds of answers. After a NACK the scan retransmits the packet, as it does without an answer,
// except for the kinds that return the message.
const (
	Ack            AnswerKind = 1 + iota // written to its endpoint, now or earlier
	NackInit                             // the channel is not initialized: Offer is an epoch
	NackEpoch                            // the receiver does not know this epoch: the message is returned
	NackResident                         // the endpoint is not resident, or is moving
	NackOverrun                          // the receive queue of its endpoint is full
	NackMemory                           // the packet needs host memory that is not pinned
	NackTag                              // wrong tag for the endpoint: the message is returned
	NackNoEndpoint                       // no such endpoint: the message is returned
	answerKinds
)

var answerNames = [answerKinds]string{
	"invalid", "ack", "nack-init", "nack-epoch", "nack-resident", "nack-overrun", "nack-memory", "nack-tag", "nack-no-endpoint",
}

// String returns the name of the kind in the counters.
func (k AnswerKind) String() string {
	if k >= answerKinds {
		k = 0
	}
	return answerNames[k]
}

// Refuses reports whether k means that the message will never be accepted.
func (k AnswerKind) Refuses() bool { return k == NackTag || k == NackNoEndpoint }

// Ended is the reason why a packet is no longer in flight.
type Ended uint8

// The ends of a packet. With EndedAcked its message was delivered exactly once; in all other cases
// the message is returned to its sender. With EndedRefused it was not delivered. With
// EndedUnreachable, EndedRestarted and EndedAbandoned it may have been delivered, at most once, if
// the ACK did not reach the sender.
const (
	NotEnded         Ended = iota // still in flight
	EndedAcked                    // the receiver has written it to its endpoint
	EndedRefused                  // by an answer for which Refuses is true
	EndedUnreachable              // no answer to Config.Tries retransmissions
	EndedRestarted                // the receiver has lost its state: NackEpoch
	EndedAbandoned                // by Sender.Abandon or AbandonCard
	endedKinds
)

var endedNames = [endedKinds]string{"under-way", "acked", "refused", "unreachable", "restarted", "abandoned"}

// String returns the name of the reason in the counters.
func (e Ended) String() string {
	if e >= endedKinds {
		return "invalid"
	}
	return endedNames[e]
}

// Passage is a packet that is or was bound to a channel.
type Passage struct {
	Packet uint32 // the caller's number for it
	Owner  int    // the endpoint that sends it
	Card   int    // destination
	Header Header // header of its next transmission
	End    Ended  // NotEnded if it is to be sent
}
