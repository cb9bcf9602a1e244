package channels

import (
	"errors"
	"fmt"
)

// Config sets the size of the channel tables of a card, and how patient its
// channels are. A nil *Config and every zero field mean the default. All cards of a
// network must have the same Channels.
type Config struct {
	// Cards is how many cards there may be, numbered from 0; default 256.
	Cards int

	// Channels is how many channels lead from one card to another, and so how many
	// packets may be under way between them; default 4, at most 32.
	Channels int

	// Owners is how many owners of packets there may be, numbered from 0: the endpoints
	// of a card, whether they are resident or not. Default 256.
	Owners int

	// Timeout is after how many nanoseconds a packet goes again that nothing has
	// answered, or that was answered by a NACK; default 16 ms.
	Timeout int64

	// Scan is how many nanoseconds lie between two looks over all packets under way;
	// default a quarter of Timeout. A packet goes again at the first look after its
	// Timeout.
	Scan int64

	// Tries is how often a packet goes again without an answer of any kind before its
	// message is returned; default 255, which with the default Timeout takes 4 to 5 s, and 17 s with Backoff.
	Tries int

	// Backoff is after how many transmissions without an answer the time between two
	// doubles, until it is four times Timeout; 0 means never, as in the paper. It is for
	// cards whose processor is a process that may have to wait for a processor of its own.
	Backoff int
}

const (
	maxChannels = 32                // the most Config.Channels
	maxBackoff  = 2                 // how often the time between transmissions doubles at the most
	maxTime     = 3_600_000_000_000 // the longest times, in nanoseconds: no sum of times overflows
)

var errConfig = errors.New("channels: configuration is out of range")

var defaults = Config{
	Cards:    256,
	Channels: 4,
	Owners:   256,
	Timeout:  16_000_000,
	Tries:    255,
}

// Resolve returns c with every default filled in. c may be nil.
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

// Validate returns an error that names the field when c, with its defaults,
// is not usable. c may be nil.
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

// Octets of an entry of the two tables in the memory of a card, and of what the send
// table has for each destination and each owner.
const (
	sendEntryOctets = 28 // packet, epoch, two stamps, time, owner, retries, state: 4+4+4+4+8+2+1+1
	recvEntryOctets = 20 // epoch, offer, nonce, stamp, state: 4+4+4+4+4
	sendCardOctets  = 4  // channels in use
	ownerOctets     = 12 // packets under way, of these with the latest NACK, state: 4+4+4
)

// Octets returns how much memory of a card the tables of c take, of sends and arrivals
// together. c may be nil.
func (c *Config) Octets() int {
	r := c.Resolve()
	return r.Cards*(sendCardOctets+r.Channels*(sendEntryOctets+recvEntryOctets)) + r.Owners*ownerOctets
}

// Header is what a packet carries for its channel, and what its answer echoes. It
// needs ten octets on the wire: one for Channel, Bit and Init, one of the caller's, and
// four each for Epoch and Stamp.
type Header struct {
	Channel uint8  // of those from the sending card to the receiving one
	Bit     uint8  // 0 or 1: alternates from message to message
	Init    bool   // the sender has no epoch: Epoch is a number of its own
	Epoch   uint32 // from one initialisation of the channel to the next, by the receiver
	Stamp   uint32 // the number of the transmission, on this channel
}

// Answer is an ACK or NACK.
type Answer struct {
	Header            // of the packet that is answered
	Kind   AnswerKind // what became of it
	Offer  uint32     // of NackInit: the epoch that the sender may use
}

// AnswerKind says what a receiver did with a packet.
type AnswerKind uint8

// The kinds of answers. A packet that was NACKed goes again, by the same scan as one that
// nothing has answered, unless the kind says that its message is returned.
const (
	Ack            AnswerKind = 1 + iota // it has been written into its endpoint, now or before
	NackInit                             // the channel is not initialised: Offer is an epoch
	NackEpoch                            // the receiver knows nothing of this epoch: the message is returned
	NackResident                         // its endpoint is not resident, or is being moved
	NackOverrun                          // the receive queue of its endpoint is full
	NackMemory                           // memory of the host that it needs is not pinned
	NackTag                              // it does not show the endpoint's tag: the message is returned
	NackNoEndpoint                       // there is no such endpoint: the message is returned
	answerKinds
)

var answerNames = [answerKinds]string{
	"invalid", "ack", "nack-init", "nack-epoch", "nack-resident", "nack-overrun", "nack-memory", "nack-tag", "nack-no-endpoint",
}

// String returns the name under which answers of the kind are counted.
func (k AnswerKind) String() string {
	if k >= answerKinds {
		k = 0
	}
	return answerNames[k]
}

// Refuses reports whether k says that the message will never be taken.
func (k AnswerKind) Refuses() bool { return k == NackTag || k == NackNoEndpoint }

// Ended says why a packet is no longer under way.
type Ended uint8

// The ends of a packet. Under EndedAcked its message was delivered, once; under all others
// it is returned to its sender. Under EndedRefused it was not delivered. Under
// EndedUnreachable, EndedRestarted and EndedAbandoned it may have been, once: the ACK
// cannot reach the sender.
const (
	NotEnded         Ended = iota // it is still under way
	EndedAcked                    // the receiver has written it into its endpoint
	EndedRefused                  // by an answer that Refuses
	EndedUnreachable              // no answer to Config.Tries transmissions
	EndedRestarted                // the receiver has lost its state: NackEpoch
	EndedAbandoned                // by Sender.Abandon or AbandonCard
	endedKinds
)

var endedNames = [endedKinds]string{"under-way", "acked", "refused", "unreachable", "restarted", "abandoned"}

// String returns the name under which packets that ended so are counted.
func (e Ended) String() string {
	if e >= endedKinds {
		return "invalid"
	}
	return endedNames[e]
}

// Passage is a packet that is bound to a channel, or was.
type Passage struct {
	Packet uint32 // the caller's pointer to it
	Owner  int    // the endpoint that it belongs to
	Card   int    // where it goes
	Header Header // what it carries on its next transmission
	End    Ended  // NotEnded when it is to be sent
}
