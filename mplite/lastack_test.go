package mplite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLastAckLost: rank 1 says goodbye before rank 0 does, and its goodbye is on its way
// while that of rank 0 leaves. It arrives, and nothing behind it does: neither that rank 1 has
// heard rank 0's goodbye, nor that it has gone. Rank 0 does not wait for that until its Timeout
// is over, and Finalize reports no failure.
func TestLastAckLost(t *testing.T) {
	cfg := small
	cfg.Timeout, cfg.PeerTimeout = patience, patience
	j := newJob(2, sim.Options{}, cfg)
	ending, goodbye, lost := false, false, 0
	j.Script(func(_ int64, from, _ *sim.Station, frame []byte) sim.Action {
		if !ending || from == j.stations[0] {
			return sim.Action{}
		}
		if goodbye {
			lost++
			return sim.Action{Drop: true}
		}
		if saysBye(frame) {
			goodbye = true
			return sim.Action{Delay: 5 * time.Millisecond}
		}
		return sim.Action{Delay: time.Millisecond} // so that rank 1 is through the barrier first
	})
	for rank := range 2 {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			began := int64(0)
			err := j.rank(nic, rank, func(c *mplite.Comm) error {
				j.Sleep(100 * time.Millisecond) // all of Init has been acknowledged
				ending, began = true, j.Now()
				return nil
			})
			if took := time.Duration(j.Now() - began); err == nil && took > patience/2 {
				return fmt.Errorf("it took %v to finalize", took)
			}
			return err
		})
	}
	if check(t, j.run()); !goodbye || lost == 0 {
		t.Errorf("rank 1 has said goodbye: %v; %d frames behind that were lost", goodbye, lost)
	}
}

// saysBye reports whether a frame is the message by which a rank leaves.
func saysBye(frame []byte) bool {
	var h ethertype.Header
	payload, err := h.Parse(frame)
	if err != nil || h.Kind != ethertype.KindData || h.Flags&ethertype.FlagPacked != 0 {
		return false
	}
	word, ok := mplite.Hear(payload)
	return ok && word.Kind == mplite.KindBye
}
