package layertest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Gathers runs messages whose data are in the heap and in other memory, of all lengths, between two
// ranks that answer each other. It uses paths with and without faults.
func Gathers(t *testing.T, open layer.Open, seeds Each) {
	check(t, run(2, sim.Options{}, open, gathers))
	seeds(t, 10, func(seed uint64) error {
		return run(2, sim.Options{Seed: seed, Loss: 0.1, Dup: 0.05, Reorder: 0.1}, open, gathers)
	})
}

// gathers makes both ranks send the same message in each round. A rank changes the memory as soon
// as the other's answer has arrived, and must receive what the other rank had at that time.
func gathers(r *rank) error {
	const rounds = 60
	g := r.Layer.(layer.Gatherer)
	head := [4]byte{'h', 'e', 'a', 'd'}
	elsewhere, want := make([]byte, layer.MaxControl), make([]byte, layer.MaxControl)
	heard := 0
	var wrong error
	r.heard = func(msg []byte) {
		i := heard / 2
		if heard++; heard%2 == 0 { // the answer
			return
		}
		n := gatherSize(i)
		if !bytes.Equal(msg, append(head[:len(head):len(head)], pattern(want[:n], i)...)) && wrong == nil {
			wrong = fmt.Errorf("rank %d: message %d, with %d bytes of data, is not what was sent", r.me, i, n)
		}
	}
	r.w.ready++
	if err := r.until("all to listen", func() bool { return r.w.ready == r.procs }); err != nil {
		return err
	}
	for i := range rounds {
		data := elsewhere
		if i%3 > 0 {
			data = r.Heap()[4096:]
		}
		if err := g.Gather(bg, 1-r.me, head[:], pattern(data[:gatherSize(i)], i)); err != nil {
			return err
		}
		if err := r.until("a message", func() bool { return heard > 2*i }); err != nil {
			return err
		}
		if err := r.Layer.Control(bg, 1-r.me, head[:]); err != nil {
			return err
		}
		if err := r.until("an answer", func() bool { return heard > 2*i+1 }); err != nil {
			return err
		}
	}
	return wrong
}

// gatherSize returns the number of data bytes in message i.
func gatherSize(i int) int { return i * 397 % (layer.MaxControl - 3) }
