package vipl

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestForeignSealed: a stranger who seems to be many stations takes the places of all others for
// a minute, not for ever, and each is said once.
func TestForeignSealed(t *testing.T) {
	var f foreignSealed
	station := func(i int) ethertype.MAC { return ethertype.MAC{2, byte(i >> 8), byte(i)} }
	genuine := ethertype.MAC{2, 5: 1}
	now, said := int64(7), 0
	forge := func() {
		for i := range 2 * maxForeignSealed {
			if f.note(station(i), now) {
				said++
			}
		}
	}
	forge()
	forge()
	if said != maxForeignSealed || len(f.since) != maxForeignSealed {
		t.Fatalf("%d are known, and %d were said, want %d", len(f.since), said, maxForeignSealed)
	}
	now += foreignSealedFor - 1
	if f.note(genuine, now) || f.knows(genuine) {
		t.Error("one too many is known")
	}
	now++
	if !f.note(genuine, now) || !f.knows(genuine) || f.note(genuine, now) {
		t.Error("a minute later there is no place still, or it is said twice")
	}
	forge()
	if !f.knows(genuine) || len(f.since) != maxForeignSealed {
		t.Errorf("%d are known", len(f.since))
	}
}
