package stations

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestTable: a stranger who seems to be many stations takes the places of all others for
// a minute, not for ever, and what is noted again stays.
func TestTable(t *testing.T) {
	const most = 64
	s := Table[int]{Max: most}
	station := func(i int) ethertype.MAC { return ethertype.MAC{2, byte(i >> 8), byte(i)} }
	genuine := ethertype.MAC{2, 5: 1}
	knows := func() bool {
		what, _, ok := s.Get(genuine)
		return ok && what == 1
	}
	now, noted := int64(7), 0
	forge := func() {
		for i := range 2 * most {
			if _, _, known := s.Get(station(i)); !known && s.Note(station(i), 2, now) {
				noted++
			}
		}
	}
	forge()
	forge()
	if noted != most || len(s.by) != most {
		t.Fatalf("%d are known, and %d were noted, want %d", len(s.by), noted, most)
	}
	now += KnownFor - 1
	if s.Note(genuine, 1, now) || knows() {
		t.Error("one too many is known")
	}
	now++
	if !s.Note(genuine, 1, now) || !knows() {
		t.Error("a minute later there is no place still")
	}
	forge()
	if !knows() || len(s.by) != most {
		t.Errorf("%d are known", len(s.by))
	}
	now += KnownFor - 1
	if !s.Note(genuine, 1, now) {
		t.Error("one that is known has no place")
	}
	now++
	forge()
	if _, at, _ := s.Get(genuine); !knows() || at != now-1 {
		t.Error("one that was noted again is forgotten")
	}
}
