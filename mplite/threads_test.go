package mplite_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNonblockingGoroutines: several goroutines of each rank start collectives,
// each on a communicator of its own, and wait for them by every kind of call,
// beside others that send and receive. The operation calls the package itself.
func TestNonblockingGoroutines(t *testing.T) {
	const size, workers = 3, 3
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(51 + rank), Driver: "udp"})
			if err != nil {
				errs[rank] = err
				return
			}
			defer nic.Close()
			cfg := small
			cfg.Job, cfg.Rank, cfg.Size, cfg.NIC = runOf(t), rank, size, nic
			errs[rank] = threadedRank(&cfg, workers)
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func threadedRank(cfg *mplite.Config, workers int) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	errs := make([]error, workers+1)
	var goroutines sync.WaitGroup
	goroutines.Go(func() { errs[workers] = ringOf(c, 250) })
	for i := range workers {
		d, err := c.Dup(bg)
		if err != nil {
			return err
		}
		goroutines.Go(func() { errs[i] = reduceOften(d, 30) })
	}
	goroutines.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.Finalize(bg)
}

// ringOf passes messages around.
func ringOf(c *mplite.Comm, rounds int) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	buf := make([]byte, 3000)
	for i := range rounds {
		if _, err := c.Sendrecv(bg, content(i*10, uint64(i)), next, 0, buf, prev, 0); err != nil {
			return err
		}
		if err := same(buf[:i*10], uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// reduceOften has four collectives under way at a time.
func reduceOften(c *mplite.Comm, rounds int) error {
	asks := mplite.NewOp(true, func(a, b int) int {
		c.Iprobe(mplite.AnySource, mplite.AnyTag)
		return a + b
	})
	want := c.Size() * (c.Size() - 1) / 2
	for round := range rounds {
		reqs := make([]mplite.Request, 4)
		sums := make([][]int, 4)
		for i := range reqs {
			op, n := asks, 1+i
			if i == 3 {
				op, n = mplite.Sum[int](), 1000
			}
			sums[i] = make([]int, n)
			for k := range sums[i] {
				sums[i][k] = c.Rank()
			}
			var err error
			if reqs[i], err = mplite.Iallreduce(c, nil, sums[i], op); err != nil {
				return err
			}
		}
		if err := endBy(round, reqs); err != nil {
			return err
		}
		for i, v := range sums {
			for _, got := range v {
				if got != want {
					return fmt.Errorf("round %d: sum %d of collective %d, want %d", round, got, i, want)
				}
			}
		}
	}
	return nil
}

func endBy(round int, reqs []mplite.Request) error {
	switch round % 3 {
	case 0:
		return mplite.Waitall(bg, reqs, nil)
	case 1:
		for range reqs {
			if _, _, err := mplite.Waitany(bg, reqs); err != nil {
				return err
			}
		}
		return nil
	}
	if done, err := mplite.Testall(reqs, nil); done {
		return err
	}
	return mplite.Waitall(bg, reqs, nil)
}

// TestMismatchBesideALeader: a rank whose goroutines wait for messages, one of them
// as the leader, finds out that its collective and that of the other rank, which
// waits too, do not fit.
func TestMismatchBesideALeader(t *testing.T) {
	errs := make([]error, 2)
	var ranks sync.WaitGroup
	for rank := range errs {
		ranks.Go(func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(61 + rank), Driver: "udp"})
			if err != nil {
				errs[rank] = err
				return
			}
			defer nic.Close()
			errs[rank] = besideALeader(&mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: len(errs), NIC: nic}})
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func besideALeader(cfg *mplite.Config) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	d, err := c.Dup(bg)
	if err != nil {
		return err
	}
	received := make(chan error)
	go func() {
		_, err := c.Recv(bg, nil, 1-c.Rank(), 0)
		received <- err
	}()
	for !c.Pending().Leading {
		runtime.Gosched()
	}
	if err := d.Bcast(bg, make([]byte, 8), 1-c.Rank()); !errors.Is(err, mplite.ErrMismatch) {
		return fmt.Errorf("two roots: %w", err)
	}
	if err := c.Send(bg, nil, 1-c.Rank(), 0); err != nil {
		return err
	}
	if err := <-received; err != nil {
		return err
	}
	return c.Finalize(bg)
}

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
