package splitc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestBothRead: two processes that read from each other over VIs send a request and a reply in
// one frame, once they have met. Where one computes instead of reading on, it answers all the
// same when it polls.
func TestBothRead(t *testing.T) {
	const reads = 500
	for _, layer := range []string{"reliable", "unreliable"} {
		t.Run(layer, func(t *testing.T) {
			p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int32](bg, w, 2, 1)
				if err != nil {
					return err
				}
				a.Local(w)[0] = int32(w.MyProc() + 1)
				if err := w.Barrier(bg); err != nil {
					return err
				}
				peer, before := 1-w.MyProc(), w.NIC().Snapshot().Link.TxFrames
				for i := range reads {
					if v, err := splitc.Read(bg, w, a.On(peer)); err != nil || v != int32(peer+1) {
						return fmt.Errorf("read %d: %d, %w", i, v, err)
					}
					if w.MyProc() == 0 && i > 400 && i%10 == 0 {
						p.Sleep(time.Millisecond)
					}
				}
				if n := w.NIC().Snapshot().Link.TxFrames - before; n > reads*3/2 {
					return fmt.Errorf("process %d sent %d frames for %d reads of each", w.MyProc(), n, reads)
				}
				return w.Barrier(bg)
			})
			check(t, p.run())
		})
	}
}
