package shm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

// TestNudgesKept: a neighbour goes to sleep again and again and answers no nudge, until there
// is no credit for another one. Nobody waits for it, and that is no failure.
func TestNudgesKept(t *testing.T) {
	h := &layertest.Hostility{Open: Open, Attack: sleeper, MaxControl: layer.MaxControl, Check: func(l layer.Layer) error {
		s := l.(*Layer)
		if s.err != nil || s.list[0].nudge == (s.Stats().CreditWaits == 0) {
			return errors.New("the victim has failed, or has had a credit for each nudge")
		}
		return nil
	}}
	layertest.Hostile(t, func(t *testing.T, _ int, run func(seed uint64) error) {
		if err := run(1); err != nil {
			t.Fatal(err)
		}
	}, h)
}

// sleeper calls procedures and sleeps, and serves its own calls but not the layer below, by
// which nudges come.
func sleeper(f *layertest.Foe, c layer.Config) error {
	defer func() { f.Over = true }()
	opened, err := Open(context.Background(), c)
	if err != nil {
		return err
	}
	defer opened.Close()
	l := opened.(*Layer)
	n := l.list[0]
	for i := range 400 {
		l.sleep.Store(1)
		if room, _ := n.requests.room(); room {
			i := uint32(i % slots)
			n.calls[i] = waiting{true, make([]byte, layer.MaxCall)}
			n.requests.put(kindCall, 1, i, nil)
		}
		if l.look(); l.err != nil || f.Over {
			return l.err
		}
		c.NIC.Poll()
		if err := f.Sleep(30 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
