package splitc_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestIsSync: what was put is under way until the owner can have it, and is there when IsSync
// says so. Stores are none of its affair.
func TestIsSync(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 2)
			if err != nil {
				return err
			}
			if w.MyProc() == 0 {
				if err := putPolled(p, w, a.On(1), layer == "shm"); err != nil {
					return err
				}
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}

// putPolled puts and gets, and polls until both are complete, which at once says they are
// before time has passed.
func putPolled(p *program, w *splitc.World, to splitc.Global[int64], atOnce bool) error {
	if done, err := w.IsSync(); err != nil || !done {
		return fmt.Errorf("before anything: %v, %w", done, err)
	}
	if err := splitc.Store(bg, w, to.Add(1), 5); err != nil {
		return err
	}
	if done, err := w.IsSync(); err != nil || !done {
		return fmt.Errorf("after a store: %v, %w", done, err)
	}
	var got int64
	if err := errors.Join(splitc.Put(bg, w, to, 7), splitc.Get(bg, w, &got, to)); err != nil {
		return err
	}
	looks := 0
	for start := w.Seconds(); ; looks++ {
		done, err := w.IsSync()
		if err != nil {
			return err
		}
		if done {
			break
		}
		if w.Seconds() > start+1 {
			return fmt.Errorf("nothing is complete after %v s", w.Seconds()-start)
		}
		if err := p.Sleep(time.Microsecond); err != nil {
			return err
		}
	}
	if atOnce != (looks == 0) {
		return fmt.Errorf("complete after %d looks", looks)
	}
	if got != 7 {
		return fmt.Errorf("got %d", got)
	}
	return w.Sync(bg)
}

// TestOnOne: the function runs in the process that is named, once, and in no other, and its
// error is that process's.
func TestOnOne(t *testing.T) {
	var ran []int
	errBad := errors.New("on purpose")
	check(t, runProgram(3, sim.Options{}, splitc.Config{}, func(w *splitc.World) error {
		err := w.OnOne(1, func() error {
			ran = append(ran, w.MyProc())
			return errBad
		})
		if want := w.MyProc() == 1; errors.Is(err, errBad) != want || err != nil != want {
			return fmt.Errorf("process %d: %w", w.MyProc(), err)
		}
		if err := w.OnOne(3, func() error { return nil }); !errors.Is(err, splitc.ErrProcessor) {
			return fmt.Errorf("on process 3 of 3: %w", err)
		}
		return w.Barrier(bg)
	}))
	if len(ran) != 1 || ran[0] != 1 {
		t.Errorf("it ran in processes %d", ran)
	}
}

// TestSeconds: the clock goes on by what has passed.
func TestSeconds(t *testing.T) {
	p := newProgram(1, sim.Options{}, splitc.Config{})
	p.start(func(w *splitc.World) error {
		start := w.Seconds()
		if err := p.Sleep(1500 * time.Millisecond); err != nil {
			return err
		}
		if d := w.Seconds() - start; d < 1.5 || d > 1.5001 {
			return fmt.Errorf("%v s have passed, want 1.5", d)
		}
		return nil
	})
	check(t, p.run())
}

// TestAcknowledgments: a process to which others only store, and which sends nothing, says what
// it has taken each time that it is a quarter of their credits, of which there are 32 over
// reliable and 16 over unreliable VIs for messages of that length.
func TestAcknowledgments(t *testing.T) {
	const stores = 1000
	_, stored, err := storeOnly("reliable", 0, stores, time.Millisecond)
	if check(t, err); stored.Acknowledgments != stores/8 || stored.NoOps != 0 {
		t.Errorf("reliable: %+v, want %d special acknowledgements", stored, stores/8)
	}
	_, stored, err = storeOnly("unreliable", 0, stores, time.Millisecond)
	if check(t, err); stored.NoOps != stores/4 || stored.Acknowledgments != 0 {
		t.Errorf("unreliable: %+v, want %d no-op replies", stored, stores/4)
	}
}

// TestSentAgain: the layer over unreliable VIs alone sends again what is lost, and a process that
// stores as fast as it can waits for credits.
func TestSentAgain(t *testing.T) {
	for _, layer := range []string{"reliable", "unreliable"} {
		for _, loss := range []float64{0, 0.05} {
			storing, _, err := storeOnly(layer, loss, 1000, 0)
			check(t, err)
			if own := layer == "unreliable" && loss > 0; storing.Retransmissions > 0 != own {
				t.Errorf("%s, loss %v: %d messages were sent again", layer, loss, storing.Retransmissions)
			}
			if storing.CreditWaits == 0 || storing.CreditTime == 0 {
				t.Errorf("%s, loss %v: the storing process has not waited for credits: %+v", layer, loss, storing)
			}
		}
	}
}

// storeOnly has process 0 store to process 1, once in a pause, and returns what the layers of both
// have counted in that.
func storeOnly(layer string, loss float64, stores int, pause time.Duration) (storing, stored splitc.LayerStats, err error) {
	const size = 512
	p := newProgram(2, sim.Options{Seed: 1, Loss: loss}, splitc.Config{Layer: layer})
	p.start(func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[byte](bg, w, 2, size)
		if err != nil {
			return err
		}
		before := below(w)
		if w.MyProc() == 1 {
			err = w.StoreSync(bg, stores*size)
			stored = below(w)
			stored.Acknowledgments -= before.Acknowledgments
			stored.NoOps -= before.NoOps
		} else {
			for range stores {
				err = errors.Join(err, splitc.BulkStore(bg, w, a.On(1), make([]byte, size)), p.Sleep(pause), w.Poll())
			}
			storing = below(w)
		}
		return errors.Join(err, w.Barrier(bg))
	})
	return storing, stored, p.run()
}

// below returns what the layer counts now.
func below(w *splitc.World) splitc.LayerStats {
	w.Snapshot()
	w.Poll()
	return w.Snapshot().Below
}
