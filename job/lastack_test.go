package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLastAckLost: a rank leaves last, and nothing that the others say from then on arrives:
// neither that they have heard it, nor that they have gone. It does not wait for them until
// its PeerTimeout is over, and takes nobody for dead.
func TestLastAckLost(t *testing.T) {
	const size = 3
	w := newWorld(size, sim.Options{})
	w.cfg.PeerTimeout = 15 * time.Second
	cut := false
	w.Script(func(_ int64, _, to *sim.Station, _ []byte) sim.Action {
		return sim.Action{Drop: cut && to == w.stations[0]}
	})
	for rank := range size {
		w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err != nil || rank != 0 {
				if err == nil {
					err = m.Leave(bg)
				}
				return err
			}
			w.Sleep(100 * time.Millisecond) // the others have said goodbye
			cut = true
			began := w.now()
			err = m.Leave(bg)
			if took := w.now() - began; err == nil && took > 5*time.Second {
				return fmt.Errorf("it took %v to leave", took)
			}
			return err
		})
	}
	check(t, w.run())
}

// TestLeaveSlowly: ranks whose acknowledgements come late, one after another, are waited for:
// each hears the others' goodbyes, over a path that loses a third of what it carries.
func TestLeaveSlowly(t *testing.T) {
	const size = 4
	seeds(t, 10, func(seed uint64) error {
		w := newWorld(size, sim.Options{Seed: seed})
		w.cfg.PeerTimeout = 15 * time.Second
		met, drops := 0, seed
		w.Script(func(int64, *sim.Station, *sim.Station, []byte) sim.Action {
			drops = drops*6364136223846793005 + 1442695040888963407
			return sim.Action{Drop: met == size && drops>>33%10 < 3}
		})
		for rank := range size {
			w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
				m, err := w.join(bg, nic, rank)
				if err != nil {
					return err
				}
				met++
				w.Sleep(time.Duration(rank) * 50 * time.Millisecond)
				return m.Leave(bg)
			})
		}
		return w.run()
	})
}
