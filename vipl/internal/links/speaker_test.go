package links

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport"
)

// TestSpeaker: of several NICs on one interface one speaks, the first that is asked, until it has gone.
func TestSpeaker(t *testing.T) {
	info := transport.Info{Interface: "speakertest"}
	var all [3]Speaker
	for i := range all {
		if err := all[i].Init(&info); err != nil {
			t.Fatal(err)
		}
	}
	now := int64(1)
	if !all[1].Speaks(now) || all[0].Speaks(now) || all[2].Speaks(now) || !all[1].Speaks(now) {
		t.Fatal("not the second one alone speaks")
	}
	all[1].Release()
	if all[0].Speaks(now) {
		t.Error("it has tried twice within an instant")
	}
	now += speakEvery
	if !all[2].Speaks(now) || all[0].Speaks(now) {
		t.Error("not the third one alone speaks")
	}
	other := info
	other.BasePort = 7
	var s Speaker
	if err := s.Init(&other); err != nil || !s.Speaks(now) {
		t.Error("the speaker of another segment does not speak:", err)
	}
	for _, s := range []*Speaker{&all[0], &all[2], &s} {
		s.Release()
	}
}
