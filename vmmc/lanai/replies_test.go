package lanai_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestReplies: of the driver's replies to a node that takes none, no more wait than may. The others are dropped
// and counted. When the line is cut there is room again.
func TestReplies(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 1, Timeout: time.Hour})
	h := n.host(0, lanai.Config{PeerTimeout: 100 * time.Millisecond}) // there is no host 1
	h.Reply(1)
	n.settle()
	s := h.Snapshot()
	taken := lanai.MostReplies - s.ToSend
	if s.Stats.Unreplied != 1 || taken <= 0 || taken > 100 {
		t.Errorf("%d replies were dropped, and %d wait: want 1, and a few less than %d", s.Stats.Unreplied, s.ToSend, lanai.MostReplies)
	}
	h.Reply(1)
	if s = h.Snapshot(); s.Stats.Unreplied != uint64(2+lanai.MostReplies-taken) || s.ToSend != lanai.MostReplies {
		t.Errorf("%d replies were dropped, and %d wait, when %d had left", s.Stats.Unreplied, s.ToSend, taken)
	}
	for range 1000 {
		n.settle()
	}
	if s = h.Snapshot(); s.ToSend != 0 || s.Stats.LinesCut == 0 {
		t.Errorf("%d replies wait, and %d lines were cut", s.ToSend, s.Stats.LinesCut)
	}
	before := s.Stats.Unreplied
	h.Reply(1)
	if s = h.Snapshot(); s.Stats.Unreplied != before+1 {
		t.Errorf("%d replies were dropped when there was room for all but one", s.Stats.Unreplied-before)
	}
}
