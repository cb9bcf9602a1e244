package mplite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestGoroutinesUnderVirtualTime: several goroutines of a rank wait at the same time,
// each in another call, where the simulator sees them. Each returns when its own
// message has come, in the order of these, and one whose time is up returns to the
// nanosecond.
func TestGoroutinesUnderVirtualTime(t *testing.T) {
	const pause = time.Millisecond
	j := newJob(2, sim.Options{}, small)
	var order []string
	var ended int
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			for _, tag := range []int{3, 1, 4, 2} {
				if err := j.Sleep(pause); err != nil {
					return err
				}
				if err := c.Send(bg, content(tag*1000, uint64(tag)), 0, tag); err != nil {
					return err
				}
			}
			return nil
		}
		calls := goroutineCalls(c)
		for _, name := range sortedNames(calls) {
			j.Go(name, func() {
				if err := calls[name](); err != nil {
					j.errs = append(j.errs, fmt.Errorf("%s: %w", name, err))
				}
				order = append(order, name)
				ended++
			})
		}
		began := j.Now()
		ctx, cancel := within(c, pause/2)
		defer cancel()
		if err := second(c.Recv(ctx, nil, 1, 9)); err == nil {
			return errors.New("a message came that nobody has sent")
		}
		if took := time.Duration(j.Now() - began); took != pause/2 {
			return fmt.Errorf("a receive of %v ended after %v", pause/2, took)
		}
		return j.computes(c, func() bool { return ended == len(calls) })
	})
	check(t, j.run())
	if want := []string{"long receive", "receive", "waitany", "probe"}; !slices.Equal(order, want) {
		t.Errorf("they return in the order %q, want %q", order, want)
	}
}

// goroutineCalls wait for the messages with tags 3, 4, 1 and 2 of rank 1.
func goroutineCalls(c *mplite.Comm) map[string]func() error {
	recv := func(tag int) error {
		buf := make([]byte, tag*1000)
		if _, err := c.Recv(bg, buf, 1, tag); err != nil {
			return err
		}
		return same(buf, uint64(tag))
	}
	return map[string]func() error{
		"receive":      func() error { return recv(1) },
		"long receive": func() error { return recv(3) },
		"waitany": func() error {
			buf := make([]byte, 4000)
			r, err := c.Irecv(buf, 1, 4)
			if err != nil {
				return err
			}
			if _, _, err := mplite.Waitany(bg, []mplite.Request{{}, r}); err != nil {
				return err
			}
			return same(buf, 4)
		},
		"probe": func() error {
			st, err := c.Probe(bg, mplite.AnySource, 2)
			if err == nil && st.Count != 2000 {
				err = fmt.Errorf("the probe found %+v", st)
			}
			return errors.Join(err, recv(2))
		},
	}
}

// TestFinalizeUnderVirtualTime: what other goroutines of a rank wait for when it
// finalizes ends in the simulator, too.
func TestFinalizeUnderVirtualTime(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	ended := map[string]error{}
	j.start(func(c *mplite.Comm) error {
		dup, err := c.Dup(bg)
		if err != nil || c.Rank() == 1 {
			return err
		}
		for _, name := range sortedNames(blockedCalls) {
			if name != "barrier" { // of which rank 1 would have to be told before it finalizes
				j.Go(name, func() { ended[name] = blockedCalls[name](c, dup) })
			}
		}
		return j.Sleep(time.Millisecond)
	})
	check(t, j.run())
	if len(ended) != len(blockedCalls)-1 {
		t.Errorf("%d calls have ended, want %d", len(ended), len(blockedCalls)-1)
	}
	for name, err := range ended {
		if !errors.Is(err, mplite.ErrClosed) {
			t.Errorf("%s ended with %v, want ErrClosed", name, err)
		}
	}
}

func sortedNames[V any](calls map[string]V) (names []string) {
	for name := range calls {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestManyGoroutinesUnderVirtualTime: several goroutines of each rank send, receive and
// reduce at a time, over a network that loses and reorders frames; nobody waits for ever
// because another one has taken what is for it.
func TestManyGoroutinesUnderVirtualTime(t *testing.T) {
	const workers = 3
	seeds(t, 8, func(seed uint64) error {
		j := newJob(3, sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.1}, small)
		j.start(func(c *mplite.Comm) error {
			ended := 0
			run := func(name string, fn func() error) {
				j.Go(name, func() {
					if err := fn(); err != nil {
						j.errs = append(j.errs, fmt.Errorf("rank %d, %s: %w", c.Rank(), name, err))
					}
					ended++
				})
			}
			run("ring", func() error { return ringOf(c, 40) })
			for i := range workers {
				d, err := c.Dup(bg)
				if err != nil {
					return err
				}
				run(fmt.Sprint("reduce ", i), func() error { return reduceOften(d, 6) })
			}
			return j.computes(c, func() bool { return ended == workers+1 })
		})
		return j.run()
	})
}
