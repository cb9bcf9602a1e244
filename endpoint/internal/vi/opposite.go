package vi

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// Opposite channels: two endpoints that ask each other
//
// Two endpoints that ask each other have two channels, of which each has dialed one. A program
// that has got the last reply it waits for, and with it a request, answers that and then asks
// again: a message on either channel goes to the same node within a microsecond. If both
// nodes know that the channels lead to the same two endpoints, the two messages go in one (carry.go).
//
// Who is at the other end of a channel that this node has dialed is known: the node at that
// address. Of who has dialed this node the address of the interface is known, which
// several programs share, and the name of an endpoint that he says is his. So each node has to hear from who
// has dialed it what it has told the node that it has dialed, and nobody else: a token of 64 random
// bits. The node with the lower address begins, when there are both channels:
//
//	a token           on the channel that it has dialed
//	it, and another   on the channel that the other node has dialed
//	that one          on the first channel, which carries for both from here on
//
// The other node then takes messages of both on the first channel, and sends them; the first one does so
// behind the third of these, which it takes and sends no others before. A program that says that it is
// another one of its host does not hear the tokens that are for that one. A node that has been dialed
// cannot use its token elsewhere either: a token that is heard is compared with the one that this node
// has told the address which the speaker says is his, and that is of his interface.
//
// Either channel may end at any time. They are no pair any more then, and what the one that has ended
// carried for the other, and may not have arrived, goes again on that: who has had it drops it by its
// number.

// pairKey is what two opposite channels have in common, as far as it is known: a name that was
// published does not say which endpoint of its node it is.
type pairKey struct {
	other ethertype.Addr // of the other node
	own   uint32         // endpoint of this one
}

// opposite is what a channel knows of the opposite one.
type opposite struct {
	key     pairKey
	ch      *channel           // nil: none is known
	carries bool               // this one carries the messages of both
	token   uint64             // that the node has been told which was dialed; 0: none
	notes   []sendBuffer       // of the one that was dialed
	spare   []*piggybackBuffer // that hold no message
	made    int                // of these, and those that do
}

// tells is how often tokens are said on a channel.
const tells = 2

// spareReceives returns how many receives a side has beside those for the messages of its half: one
// that is late, and those for the channel's own messages, of which no two come before the first
// has been taken in.
func spareReceives(s wire.Shape, at wire.Side) int {
	n := 1 + notes(s)
	if at == wire.Serving {
		n++ // tokens
	}
	return n
}

// goesFirst reports whether the node at address a begins to pair its channels with those of the one at b.
func goesFirst(a, b ethertype.Addr) bool {
	return cmp.Or(bytes.Compare(a.MAC[:], b.MAC[:]), cmp.Compare(a.Port, b.Port)) < 0
}

// meet notes what the channel has in common with an opposite one. If there is one, and it is for this
// node to do, it begins to pair them.
func (ch *channel) meet(key pairKey) {
	w := ch.way
	ch.opposite.key = key
	p := w.pairs[key]
	if p == nil {
		p = new([2]*channel)
		w.pairs[key] = p
	}
	if p[ch.side] == nil {
		p[ch.side] = ch
	}
	if c := p[wire.Asking]; c != nil && p[wire.Serving] != nil && c.opposite.token == 0 && goesFirst(w.Addr(), key.other) {
		c.tell(0)
	}
}

// dialed returns the channel that this node has dialed first, of those with the key of ch, or nil.
func (ch *channel) dialed() *channel {
	if p := ch.way.pairs[ch.opposite.key]; p != nil {
		return p[wire.Asking]
	}
	return nil
}

// tell says the token that was heard on the opposite channel, and a new one, on one that was dialed.
func (ch *channel) tell(heard uint64) {
	var b [8]byte
	rand.Read(b[:])
	ch.opposite.token = binary.LittleEndian.Uint64(b[:]) | 1
	ch.say(wire.Tokens{Heard: heard, New: ch.opposite.token})
}

// say sends tokens. There is a buffer for each time that a channel does.
func (ch *channel) say(t wire.Tokens) {
	for i := range ch.opposite.notes {
		if x := &ch.opposite.notes[i]; !x.busy {
			at := (&wire.Header{Kind: wire.KindPair}).Put(x.mem)
			t.Put(x.mem[at:])
			x.n, x.busy = at+wire.TokensSize, true
			ch.launch(x)
			return
		}
	}
}

// told hears tokens.
func (ch *channel) told(b []byte) {
	var t wire.Tokens
	if !t.Parse(b) || ch.side != wire.Serving {
		ch.way.up.Stray()
		return
	}
	c := ch.dialed()
	switch {
	case c == nil || ch.opposite.ch != nil || c.opposite.ch != nil:
		ch.way.up.Stray()
	case t.Heard == 0 && c.opposite.token == 0:
		c.tell(t.New)
	case t.Heard != c.opposite.token || t.Heard == 0:
		ch.way.up.Stray()
	case t.New != 0: // the answer to what this node has begun
		c.say(wire.Tokens{Heard: t.New})
		pair(c, ch)
	default:
		pair(ch, c)
	}
}

// pair makes opposites of two channels, of which the first carries the messages of both.
func pair(a, b *channel) {
	a.opposite.ch, b.opposite.ch = b, a
	a.opposite.carries = true
}

// part undoes pair, when a channel ends. What it has carried for the opposite one goes on that one.
func (ch *channel) part() {
	o := &ch.opposite
	if p := ch.way.pairs[o.key]; p != nil && p[ch.side] == ch {
		if p[ch.side] = nil; *p == [2]*channel{} {
			delete(ch.way.pairs, o.key)
		}
	}
	if ch.way.held.ch == ch {
		ch.way.held = piggyback{}
	}
	for i := range ch.sends {
		if x := &ch.sends[i]; x.piggyback.ch != nil {
			x.piggyback.again(x)
		}
	}
	if o.ch == nil {
		return
	}
	for _, c := range [2]*channel{o.ch, ch} {
		c.opposite.ch, c.opposite.carries, c.opposite.token = nil, false, 0
	}
}
