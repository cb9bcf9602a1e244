package lanai_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestTold: whatever others send to a process that takes nothing in, one that has not sent yet has room for its
// messages and notifications. When the process has taken in what there is, nothing is left.
func TestTold(t *testing.T) {
	seeds(t, 60, func(seed uint64) error {
		for i, what := range []string{"messages of strangers", "messages", "messages and ends", "all"} {
			if err := tells(rand.New(rand.NewPCG(seed, 7)), i+1); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return nil
	})
}

// tells has up to 40 processes send so many kinds of things to one, and then another one.
func tells(rng *rand.Rand, kinds int) error {
	var x lanai.Told
	peers := 1 + rng.IntN(40)
	for range 20_000 {
		from := ethertype.Addr{Port: uint16(1 + rng.IntN(peers))}
		switch rng.IntN(kinds) {
		case 0, 1:
			x.Say(from, rng.IntN(4000), kinds == 1 || rng.IntN(2) == 0)
		case 2:
			x.Bye(from)
		case 3:
			x.Note(from)
		}
	}
	const end = 300 // bytes that the end of a process counts, at the most
	bytes, notes := x.Sum()
	if kinds == 1 && bytes > lanai.MostTold/2 || bytes > lanai.MostTold+peers*(lanai.ToldOwn+end) {
		return fmt.Errorf("%d bytes of %d processes", bytes, peers)
	}
	if notes > min(peers*lanai.MostNoted, lanai.MostNotes+peers*lanai.MaxNotes) {
		return fmt.Errorf("%d notifications of %d processes", notes, peers)
	}
	other := ethertype.Addr{Port: 1000}
	for k := range 8 {
		if !x.Say(other, 100, false) {
			return fmt.Errorf("no room for message %d of another process beside %d", k, peers)
		}
	}
	for k := range lanai.MostNoted / 2 {
		if !x.Note(other) {
			return fmt.Errorf("no room for notification %d of another process beside %d", k, peers)
		}
	}
	if !x.Bye(other) || x.Bye(other) {
		return fmt.Errorf("the end of another process is told never, or twice")
	}
	for left, of := 1, 0; left > 0; {
		if left, of = x.Took(1 + rng.IntN(100)); left == 0 && of > 0 {
			return fmt.Errorf("%d processes are left", of)
		}
	}
	if bytes, notes = x.Sum(); bytes+notes != 0 {
		return fmt.Errorf("%d bytes and %d notifications are left", bytes, notes)
	}
	return nil
}

// TestToldInTurn: processes that fill their parts one after the other leave another one room for some messages,
// and as many that are owed one for each notification, whatever the number of them.
func TestToldInTurn(t *testing.T) {
	var x lanai.Told
	const peers = 1000
	for port := range uint16(peers) {
		from := ethertype.Addr{Port: 1 + port}
		for x.Say(from, 1, false) {
		}
		for x.Note(from) {
		}
	}
	if bytes, notes := x.Sum(); bytes > lanai.MostTold+peers*lanai.ToldOwn || notes > lanai.MostNotes+peers*lanai.MaxNotes {
		t.Errorf("%d bytes and %d notifications", bytes, notes)
	}
	other := ethertype.Addr{Port: 2000}
	for k := range 4 {
		if !x.Say(other, 100, false) {
			t.Errorf("no room for message %d", k)
		}
	}
	for k := range lanai.MaxNotes {
		if !x.Note(other) {
			t.Errorf("no room for notification %d", k)
		}
	}
	if x.Say(ethertype.Addr{Port: 3000}, 100, true) {
		t.Error("a stranger has room")
	}
}
