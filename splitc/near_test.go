package splitc_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// The tests here are of what processes of one host do without a message, over the default
// layer.

// TestNearServes: a process that does nothing but read or write a neighbour's heap serves the
// others meanwhile: the neighbour sets what it waits for when it has had an answer from it.
func TestNearServes(t *testing.T) {
	for name, look := range map[string]func(w *splitc.World, a splitc.Array[int64]) (over bool, err error){
		"read": func(w *splitc.World, a splitc.Array[int64]) (bool, error) {
			v, err := splitc.Read(bg, w, a.On(1))
			return v != 0, err
		},
		"write": func(w *splitc.World, a splitc.Array[int64]) (bool, error) {
			return a.Local(w)[0] != 0, splitc.Write(bg, w, a.On(1).Add(1), 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(2, sim.Options{Limit: time.Minute}, splitc.Config{})
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 2)
				if err == nil {
					err = w.Barrier(bg)
				}
				if err != nil {
					return err
				}
				if w.MyProc() == 1 {
					if _, err := splitc.FetchAdd(bg, w, a.On(0), 1); err != nil {
						return err
					}
					a.Local(w)[0] = 1
					return w.Barrier(bg)
				}
				for looks := 0; ; looks++ {
					over, err := look(w, a)
					if err != nil {
						return err
					}
					if over {
						return w.Barrier(bg)
					}
					if looks > 1000 {
						return errors.New("it has looked a thousand times, and served nobody")
					}
					if err := p.Sleep(time.Microsecond); err != nil {
						return err
					}
				}
			})
			check(t, p.run())
		})
	}
}

// TestNearCounts: procedures that go to a neighbour by memory count as requests, and their
// results as replies.
func TestNearCounts(t *testing.T) {
	const calls = 10
	p := newProgram(2, sim.Options{}, splitc.Config{})
	over := false
	p.start(func(w *splitc.World) error {
		a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 1)
		if err == nil {
			err = w.Barrier(bg)
		}
		if err == nil {
			err = newSnapshot(w)
		}
		if err != nil {
			return err
		}
		before := w.Snapshot().Below
		if err := w.Barrier(bg); err != nil {
			return err
		}
		if w.MyProc() == 0 {
			for range calls {
				if _, err := splitc.FetchAdd(bg, w, a.On(1), 1); err != nil {
					return err
				}
			}
			over = true
			if err := newSnapshot(w); err != nil {
				return err
			}
			if sent := w.Snapshot().Below.Requests - before.Requests; sent < calls {
				return fmt.Errorf("%d calls are %d requests", calls, sent)
			}
			return nil
		}
		for !over { // and does not sleep, so that nobody sends messages to wake it
			if err := w.Poll(); err != nil {
				return err
			}
			if err := p.Sleep(time.Microsecond); err != nil {
				return err
			}
		}
		if err := newSnapshot(w); err != nil {
			return err
		}
		if sent := w.Snapshot().Below.Replies - before.Replies; sent < calls {
			return fmt.Errorf("%d calls have %d replies", calls, sent)
		}
		return nil
	})
	check(t, p.run())
}
