package untaken

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seedtest"
)

var seeds = seedtest.Flags("untaken", 10)

const most, notes, ownNotes = 1 << 20, 4096, 32

func account() Account { return Account{Most: most, Notes: notes, OwnNotes: ownNotes} }

// sender returns sender n of a station.
func sender(station byte, n int) ethertype.Addr {
	return ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, station}, Port: uint16(1 + n)}
}

// TestAccount: whatever others send to a program that takes nothing in, one that has not sent yet has room for its
// messages and notifications. When the program has taken in what there is, nothing is left.
func TestAccount(t *testing.T) {
	seeds.Each(t, 60, func(seed uint64) error {
		for i, what := range []string{"messages of strangers", "messages", "messages and ends", "all"} {
			if err := sends(rand.New(rand.NewPCG(seed, 7)), i+1); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return nil
	})
}

// sends has up to 40 senders send so many kinds of things to one program, and then another sender.
func sends(rng *rand.Rand, kinds int) error {
	a := account()
	peers := 1 + rng.IntN(40)
	const end = 300 // bytes that the end of a process counts
	for range 20_000 {
		from := sender(1, rng.IntN(peers))
		switch rng.IntN(kinds) {
		case 0, 1:
			a.Message(from, 1+rng.IntN(4000), kinds == 1 || rng.IntN(2) == 0)
		case 2:
			a.End(from, end)
		case 3:
			a.Note(from)
		}
	}
	if kinds == 1 && a.bytes > most/2 || a.bytes > most+peers*(Own+end) {
		return fmt.Errorf("%d bytes of %d senders", a.bytes, peers)
	}
	if a.notes > min(peers*2*ownNotes, notes+peers*ownNotes) {
		return fmt.Errorf("%d notifications of %d senders", a.notes, peers)
	}
	other := sender(1, 1000)
	for k := range 8 {
		if !a.Message(other, Own/8, false) {
			return fmt.Errorf("no room for message %d of another sender beside %d", k, peers)
		}
	}
	for k := range ownNotes {
		if !a.Note(other) {
			return fmt.Errorf("no room for notification %d of another sender beside %d", k, peers)
		}
	}
	if !a.End(other, end) || a.End(other, end) {
		return fmt.Errorf("the end of another sender is told never, or twice")
	}
	for a.order.Len() > 0 {
		a.Took(1 + rng.IntN(100))
	}
	if a.bytes+a.notes+len(a.by)+len(a.stations) != 0 {
		return fmt.Errorf("%d bytes, %d notifications, %d senders and %d stations are left", a.bytes, a.notes, len(a.by), len(a.stations))
	}
	return nil
}

// TestInTurn: senders that fill their parts one after the other leave another one room for some messages, and as
// many notifications as each has for itself, whatever the number of them.
func TestInTurn(t *testing.T) {
	a := account()
	const peers, message = 1000, 256
	for n := range peers {
		for a.Message(sender(1, n), message, false) {
		}
		for a.Note(sender(1, n)) {
		}
	}
	if a.bytes > most+peers*Own || a.notes > notes+peers*ownNotes {
		t.Errorf("%d bytes and %d notifications", a.bytes, a.notes)
	}
	other := sender(1, 2000)
	for k := range Own / message {
		if !a.Message(other, message, false) {
			t.Errorf("no room for message %d", k)
		}
	}
	for k := range ownNotes {
		if !a.Note(other) {
			t.Errorf("no room for notification %d", k)
		}
	}
	if a.Message(sender(1, 3000), message, true) {
		t.Error("a stranger has room")
	}
}

// TestOneStation: one station leaves strangers of other stations room, whatever the number of its senders.
func TestOneStation(t *testing.T) {
	a := account()
	const message = 256
	for n := range 10_000 {
		for a.Message(sender(1, n), message, true) {
		}
	}
	if n := a.bytes; n > most/2/stationPart {
		t.Errorf("one station has %d bytes, more than 1/%d of the strangers' %d", n, stationPart, most/2)
	}
	n := 0
	for a.Message(sender(2, 0), message, true) {
		n += message
	}
	if n < most/16 {
		t.Errorf("a stranger of another station has %d bytes, want %d", n, most/16)
	}
}

// TestOneStationNotes: one station leaves senders of other stations room for twice the notifications that each sender
// has in any case, whatever the number of its own senders.
func TestOneStationNotes(t *testing.T) {
	a := account()
	const peers = 10_000
	for n := range peers {
		for a.Note(sender(1, n)) {
		}
	}
	if more := a.notes - peers*ownNotes; more < 0 || more > notes/stationPart {
		t.Errorf("one station has %d notifications beside %d of each sender, want at most 1/%d of %d", more, ownNotes, stationPart, notes)
	}
	for station := byte(2); station < 6; station++ {
		n := 0
		for a.Note(sender(station, 0)) {
			n++
		}
		if n != 2*ownNotes {
			t.Errorf("a sender of station %d has %d notifications, want %d", station, n, 2*ownNotes)
		}
	}
	a.Took(a.order.Len())
	if a.bytes+a.notes+a.more+len(a.by)+len(a.stations) != 0 {
		t.Errorf("%d bytes, %d notifications, %d more, %d senders and %d stations are left", a.bytes, a.notes, a.more, len(a.by), len(a.stations))
	}
}
