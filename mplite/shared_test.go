package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// sharing returns fn for ranks of one job that share memory for their collectives.
func sharing(size int, fn func(c *mplite.Comm) error) func(c *mplite.Comm) error {
	memory := make([]byte, mplite.MeetingSize(size))
	return func(c *mplite.Comm) error {
		mplite.Share(c, memory)
		return fn(c)
	}
}

// sharers are the numbers of ranks that share memory in tests.
func sharers() (sizes []int) {
	for _, n := range ranks() {
		if n > 1 && n <= mplite.MeetRanks {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

// TestSharedCollectives compares everything that collectives do in shared memory with the naive results.
func TestSharedCollectives(t *testing.T) {
	for _, size := range sharers() {
		check(t, runJob(size, sim.Options{}, small, sharing(size, func(c *mplite.Comm) error {
			for _, check := range checks {
				for _, n := range lengths(check.name, size) {
					if err := check.run(c, n); err != nil {
						return fmt.Errorf("%s of %d: %w", check.name, n, err)
					}
				}
			}
			for _, scale := range []int{1, 900, mplite.PartMost/16 + 1} { // some parts are too long, others are not
				if err := unequal(c, scale); err != nil {
					return fmt.Errorf("scale %d: %w", scale, err)
				}
			}
			if mplite.Posted(c) != mplite.MeetSlots {
				return errors.New("the memory was not used")
			}
			return nil
		})))
	}
}

// TestSharedForms: ranks call collectives in either form, and have several in progress.
func TestSharedForms(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		size := []int{2, 3, 4, 5, 8}[seed%5]
		return runJob(size, sim.Options{Seed: seed}, small, sharing(size, func(c *mplite.Comm) error {
			all, own := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, uint64(2+c.Rank())))
			for range 10 {
				var begun []collected
				var reqs []mplite.Request
				for range 1 + all.IntN(2*mplite.MeetSlots) {
					d := draw(c, all)
					if own.IntN(2) == 0 {
						if err := d.call(); err != nil {
							return fmt.Errorf("%s: %w", d.name, err)
						}
					} else if r, err := d.start(); err != nil {
						return fmt.Errorf("%s: %w", d.name, err)
					} else {
						reqs = append(reqs, r)
					}
					begun = append(begun, d)
				}
				if err := mplite.Waitall(bg, reqs, nil); err != nil {
					return err
				}
				for _, d := range begun {
					if err := d.same(); err != nil {
						return fmt.Errorf("%s: %w", d.name, err)
					}
				}
			}
			return nil
		}))
	})
}

// TestSharedBits: reductions of numbers whose sum depends on the order give the same bits as by messages.
func TestSharedBits(t *testing.T) {
	for _, size := range sharers() {
		check(t, runJob(size, sim.Options{}, small, sharing(size, func(c *mplite.Comm) error {
			d, err := c.Dup(bg) // whose ranks exchange messages
			if err != nil {
				return err
			}
			const n = 50
			rng := rand.New(rand.NewPCG(1, uint64(c.Rank())))
			v, counts := make([]float64, n*size), slices.Repeat([]int{n}, size)
			for i := range v {
				v[i] = math.Ldexp(rng.Float64(), rng.IntN(60))
			}
			sum := mplite.Sum[float64]()
			for _, name := range []string{"reduce", "allreduce", "reduce_scatter", "scan", "exscan"} {
				var got [2][]float64
				for i, on := range []*mplite.Comm{c, d} {
					got[i] = make([]float64, n)
					switch name {
					case "reduce":
						err = mplite.Reduce(bg, on, v[:n], got[i], sum, size/2)
					case "allreduce":
						err = mplite.Allreduce(bg, on, v[:n], got[i], sum)
					case "reduce_scatter":
						err = mplite.ReduceScatter(bg, on, v, got[i], counts, sum)
					case "scan":
						err = mplite.Scan(bg, on, v[:n], got[i], sum)
					case "exscan":
						err = mplite.Exscan(bg, on, v[:n], got[i], sum)
					}
					if err != nil {
						return err
					}
				}
				if err := expect(name, got[0], got[1]); err != nil {
					return err
				}
			}
			return nil
		})))
	}
}

// TestSharedMismatch: a rank that makes another call is found, also if no rank waits for another one.
func TestSharedMismatch(t *testing.T) {
	for _, size := range []int{2, 3} {
		for i := range ways(3, 0) {
			for k := range ways(3, 0) {
				if i == k {
					continue
				}
				for _, nonblocking := range []bool{false, true} {
					check(t, runShared(size, func(c *mplite.Comm) error {
						w := ways(3, 0)[i]
						if c.Rank() == size-1 {
							w = ways(3, 0)[k]
						}
						err := w.run(c, nonblocking)
						if err == nil {
							err = c.Barrier(bg)
						}
						if !errors.Is(err, mplite.ErrMismatch) {
							return fmt.Errorf("%s and %s: %w", ways(3, 0)[i].name, ways(3, 0)[k].name, err)
						}
						return nil
					}))
				}
			}
		}
	}
}

// runShared runs fn on the ranks of a job that share memory. The job may end with a mismatch.
func runShared(size int, fn func(c *mplite.Comm) error) error {
	j := newJob(size, sim.Options{}, small)
	j.start(sharing(size, func(c *mplite.Comm) error {
		err := fn(c)
		j.stays(c, size)
		if err != nil {
			return err
		}
		return errKilled
	}))
	return j.runKilled()
}

// TestSharedDeath: the death of a rank ends the collectives of all others, at the latest when they need the memory
// that it has not read.
func TestSharedDeath(t *testing.T) {
	for _, check := range checks {
		memory := make([]byte, mplite.MeetingSize(5))
		err := killedJob(1, func(c *mplite.Comm) error { mplite.Share(c, memory); return nil }, func(c *mplite.Comm) error {
			var err error
			for i := 0; i <= mplite.MeetSlots && err == nil; i++ {
				err = check.run(c, 30)
			}
			return blames(check.name, err)
		})
		if err != nil {
			t.Errorf("%s: %v", check.name, err)
		}
	}
}

// TestSharedContext: a context ends a collective that waits for another rank.
func TestSharedContext(t *testing.T) {
	check(t, runShared(2, func(c *mplite.Comm) error {
		if c.Rank() == 1 {
			return nil
		}
		ctx, cancel := c.NIC().WithTimeout(bg, time.Second)
		defer cancel()
		if err := c.Barrier(ctx); !errors.Is(err, vipl.ErrTimeout) || !contains(err, "barrier") {
			return fmt.Errorf("a barrier without the other rank: %w", err)
		}
		return nil
	}))
}

// TestSharedHostile: whatever another process writes into the memory, collectives end, and write only to their buffers.
func TestSharedHostile(t *testing.T) {
	const size, n, guard = 3, 40, 8
	seeds(t, 20, func(seed uint64) error {
		memory := make([]byte, mplite.MeetingSize(size))
		rng := rand.New(rand.NewPCG(seed, 9))
		scribble := func() {
			for range 200 {
				at := rng.IntN(len(memory))
				if rng.IntN(2) == 0 { // where words are
					at = at / (len(memory) / size) * (len(memory) / size)
					at += rng.IntN(2)*128 + rng.IntN(300)
				}
				memory[at] = byte(rng.Uint32())
			}
		}
		j := newJob(size, sim.Options{Seed: seed}, small)
		j.start(func(c *mplite.Comm) error {
			mplite.Share(c, memory)
			for range 30 {
				scribble()
				ctx, cancel := c.NIC().WithTimeout(bg, 10*time.Millisecond)
				v := make([]float64, n*size+guard)
				part := make([]float64, n+guard)
				var err error
				switch rng.IntN(6) {
				case 0:
					err = mplite.Allreduce(ctx, c, nil, part[:n], mplite.Sum[float64]())
				case 1:
					err = mplite.Bcast(ctx, c, part[:n], 0)
				case 2:
					err = mplite.Allgather(ctx, c, part[:n], v[:n*size])
				case 3:
					err = mplite.Scatterv(ctx, c, v[:n*size], []int{n, n, n}, part[:n], 0)
				case 4:
					err = mplite.Gatherv(ctx, c, part[:n], v[:n*size], []int{n, n, n}, 0)
				default:
					err = c.Barrier(ctx)
				}
				cancel()
				if slices.Max(v[n*size:]) != 0 || slices.Max(part[n:]) != 0 {
					return errors.New("a collective has written beyond its buffer")
				}
				if errors.Is(err, mplite.ErrRankFailed) || errors.Is(err, mplite.ErrMismatch) {
					break
				}
			}
			j.stays(c, size)
			return errKilled
		})
		return j.runKilled()
	})
}

// TestSharedWakes: a rank that sleeps is woken by each call of a rank that never waits.
func TestSharedWakes(t *testing.T) {
	const calls, between = 100, 5 * time.Millisecond
	for _, nonblocking := range []bool{false, true} {
		j := newJob(2, sim.Options{}, small)
		var began [calls]int64
		j.start(sharing(2, func(c *mplite.Comm) error {
			v := make([]byte, 8)
			for i := range calls {
				if c.Rank() == 0 { // its program computes
					if err := j.Sleep(between); err != nil {
						return err
					}
					began[i] = j.Now()
				}
				if !nonblocking {
					if err := mplite.Bcast(bg, c, v, 0); err != nil {
						return err
					}
				} else if r, err := mplite.Ibcast(c, v, 0); err != nil {
					return err
				} else if _, err := r.Wait(bg); err != nil {
					return err
				}
				if late := time.Duration(j.Now() - began[i]); late >= between/2 {
					return fmt.Errorf("call %d, nonblocking %v, has ended %v after its root began it", i, nonblocking, late)
				}
			}
			return nil
		}))
		check(t, j.run())
	}
}

// TestSharedInVain: a rank whose Init fails before it shares memory leaves the NIC to others as it was.
func TestSharedInVain(t *testing.T) {
	check(t, runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		if !mplite.JoinsInVain(c) {
			return errors.New("waits of the NIC still poll memory that no rank uses")
		}
		return nil
	}))
}

// TestSharedOnAHost: ranks on a host agree on memory by themselves. Their waits poll, sleep and are woken.
func TestSharedOnAHost(t *testing.T) {
	const size = 3
	p := vethtest.New(t, 1500)
	var nics [size]*vipl.NIC
	for i := range nics {
		err := p.In(0, func() (err error) {
			nics[i], err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer nics[i].Close()
	}
	run := func(rank int) error {
		cfg := mplite.Config{}
		cfg.Job, cfg.Rank, cfg.Size, cfg.NIC = t.Name(), rank, size, nics[rank]
		c, err := mplite.Init(bg, &cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		for range 20 {
			for _, check := range checks {
				for _, n := range []int{1, 700, 9000} {
					if err := check.run(c, n); err != nil {
						return fmt.Errorf("%s of %d: %w", check.name, n, err)
					}
				}
			}
		}
		if mplite.Posted(c) == 0 {
			return errors.New("the ranks do not share memory")
		}
		return c.Finalize(ctx)
	}
	var wg sync.WaitGroup
	var errs [size]error
	for rank := range errs {
		wg.Go(func() { errs[rank] = run(rank) })
	}
	wg.Wait()
	check(t, errors.Join(errs[:]...))
}
