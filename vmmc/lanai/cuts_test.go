package lanai_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestCutsBounded: lines that are cut while a process does not look leave it one event for each node. What others
// said between two cuts is dropped, and their room is free when the process has looked.
func TestCutsBounded(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 1})
	h := n.host(0, lanai.Config{})
	n.host(1, lanai.Config{})
	n.process(0, 1, func(p *vmmc.Process) error {
		const times = 100
		if events, told, after := h.CutLines(1, 1, times); events != 1+times || !told || after {
			t.Errorf("%d events wait, want %d; some of the node's wait: %v, and %v later", events, 1+times, told, after)
		}
		if n := p.Snapshot().Stats.Strangers + p.Snapshot().Stats.Violations; n != 0 {
			t.Errorf("%d messages of lines that were cut have been handled", n)
		}
		return nil
	})
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
}
