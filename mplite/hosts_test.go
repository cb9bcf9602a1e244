package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// startOn adds the processes of a job whose rank r is on host place[r]. The ranks of a host share a NIC.
func (j *testJob) startOn(place []int, fn func(c *mplite.Comm) error) {
	byHost := map[int][]int{}
	for rank, host := range place {
		byHost[host] = append(byHost[host], rank)
	}
	for host := range len(byHost) {
		ranks := byHost[host]
		name := fmt.Sprintf("host %d", host)
		j.host(name, func(nic *vipl.NIC) error {
			left, done := len(ranks), j.Waiter()
			for _, rank := range ranks {
				j.Go(fmt.Sprintf("rank %d", rank), func() {
					if err := j.rank(nic, rank, fn); err != nil {
						j.errs = append(j.errs, fmt.Errorf("rank %d: %w", rank, err))
					}
					if left--; left == 0 {
						done.Wake()
					}
				})
			}
			return done.Wait(math.MaxInt64)
		})
	}
}

// runOn runs fn on every rank of a job, placed as startOn has it.
func runOn(place []int, cfg mplite.Config, fn func(c *mplite.Comm) error) error {
	j := newJob(len(place), sim.Options{}, cfg)
	j.startOn(place, fn)
	return j.run()
}

// blocks places ranks on hosts of perHost ranks each, which follow one another.
func blocks(size, perHost int) []int {
	place := make([]int, size)
	for rank := range place {
		place[rank] = rank / perHost
	}
	return place
}

// cyclic places one rank after the other on each host in turn.
func cyclic(size, hosts int) []int {
	place := make([]int, size)
	for rank := range place {
		place[rank] = rank % hosts
	}
	return place
}

// TestSplitShared: each host's ranks are in one communicator, in the order of keys and ranks.
func TestSplitShared(t *testing.T) {
	for _, tc := range []struct {
		place   []int
		connect mplite.Connect
	}{
		{[]int{0}, mplite.Ahead},
		{blocks(4, 1), mplite.Ahead},
		{blocks(4, 4), mplite.Ahead},
		{blocks(7, 3), mplite.Ahead},
		{cyclic(8, 3), mplite.Ahead},
		{cyclic(10, 4), mplite.OnUse},
		{[]int{1, 0, 0, 2, 1, 0, 2, 2, 2}, mplite.OnUse},
	} {
		cfg := small
		cfg.Connect = tc.connect
		err := runOn(tc.place, cfg, func(c *mplite.Comm) error { return splitsShared(c, tc.place) })
		if err != nil {
			t.Fatalf("ranks on hosts %v: %v", tc.place, err)
		}
	}
}

func splitsShared(c *mplite.Comm, place []int) error {
	for _, backwards := range []bool{false, true} {
		key := 0
		var want []int
		for rank, host := range place {
			if host == place[c.Rank()] {
				want = append(want, rank)
			}
		}
		if backwards {
			key = -c.Rank()
			slices.Reverse(want)
		}
		near, err := c.SplitShared(bg, key)
		if err != nil {
			return err
		}
		if got := ranksOf(c, near.Group()); !slices.Equal(got, want) {
			return fmt.Errorf("rank %d shares its host with %v, want %v", c.Rank(), got, want)
		}
		sum := []int{1}
		if err := mplite.Allreduce(bg, near, nil, sum, mplite.Sum[int]()); err != nil || sum[0] != len(want) {
			return fmt.Errorf("the host has %d ranks: %w, want %d", sum[0], err, len(want))
		}
	}
	return nil
}

// TestSplitSharedOfTheRest: some ranks do not know the host of a rank that is not in the communicator, because it died before they
// asked for it.
func TestSplitSharedOfTheRest(t *testing.T) {
	check(t, runOn(blocks(4, 4), small, func(c *mplite.Comm) error {
		rest, err := c.Split(bg, min(c.Rank(), 1), 0)
		if err != nil || c.Rank() == 0 {
			return err
		}
		if c.Rank() == 2 {
			mplite.ForgetHost(c, 0)
		}
		near, err := rest.SplitShared(bg, 0)
		if err != nil {
			return err
		}
		if near.Size() != 3 {
			return fmt.Errorf("%d ranks share the host, want 3", near.Size())
		}
		return nil
	}))
}

// TestSplitSharedMismatch: a rank that calls another function gives every rank an error that names both.
func TestSplitSharedMismatch(t *testing.T) {
	check(t, runOn(blocks(3, 2), mplite.Config{}, func(c *mplite.Comm) error {
		c, err := c.Dup(bg) // the job's own communicator is for Finalize
		if err != nil {
			return err
		}
		if c.Rank() == 2 {
			_, err = c.Split(bg, 0, 0)
		} else {
			_, err = c.SplitShared(bg, 0)
		}
		var m *mplite.MismatchError
		if !errors.As(err, &m) || !slices.Contains(m.Calls[:], "split") || !slices.Contains(m.Calls[:], "split_shared") {
			return fmt.Errorf("%v, want a mismatch of split and split_shared", err)
		}
		return nil
	}))
}

// TestHostsLive: NICs of one namespace share memory, those of two do not. Collectives give the naive results.
func TestHostsLive(t *testing.T) {
	p := vethtest.New(t, 1500)
	const size = 4
	var wg sync.WaitGroup
	errs := make([]error, size)
	for rank := range size {
		var nic *vipl.NIC
		check(t, p.In(rank%2, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		}))
		t.Cleanup(func() { nic.Close() })
		cfg := mplite.Config{}
		cfg.Job, cfg.Rank, cfg.Size, cfg.NIC = t.Name(), rank, size, nic
		wg.Go(func() { errs[rank] = live(t.Context(), cfg) })
	}
	wg.Wait()
	check(t, errors.Join(errs...))
}

func live(ctx context.Context, cfg mplite.Config) error {
	c, err := mplite.Init(ctx, &cfg)
	if err != nil {
		return err
	}
	if err := splitsShared(c, cyclic(cfg.Size, 2)); err != nil {
		return err
	}
	for _, tc := range checks {
		if err := tc.run(c, 1000); err != nil {
			return fmt.Errorf("%s: %w", tc.name, err)
		}
	}
	if err := inPlaceAndOrdered(c); err != nil {
		return err
	}
	return c.Finalize(ctx)
}

// placements are where the ranks of a job of that size may be: by blocks, in turn, and without order.
func placements(size int) [][]int {
	mixed := make([]int, size)
	for rank := range mixed {
		mixed[rank] = (rank*rank + 3*rank/2) % 5
	}
	return [][]int{blocks(size, 2), blocks(size, 5), cyclic(size, min(3, size)), dense(mixed)}
}

// dense renumbers hosts, so that there are none without ranks.
func dense(place []int) []int {
	number := map[int]int{}
	out := make([]int, len(place))
	for i, h := range place {
		if _, ok := number[h]; !ok {
			number[h] = len(number)
		}
		out[i] = number[h]
	}
	return out
}

// TestTwoLevels compares the collectives with the naive results for ranks that share hosts, whatever their placement.
func TestTwoLevels(t *testing.T) {
	for _, size := range ranks() {
		for _, place := range placements(size) {
			cfg := small
			cfg.Connect = mplite.OnUse
			err := runOn(place, cfg, func(c *mplite.Comm) error {
				for _, tc := range checks {
					for _, n := range twoLevelLengths(tc.name, size) {
						if err := tc.run(c, n); err != nil {
							return fmt.Errorf("%s: %w", tc.name, err)
						}
					}
				}
				return inPlaceAndOrdered(c)
			})
			if err != nil {
				t.Fatalf("ranks on hosts %v: %v", place, err)
			}
		}
	}
}

func twoLevelLengths(name string, size int) []int {
	switch name {
	case "barrier":
		return []int{0}
	case "allgather":
		return []int{0, 1, 100, 6000 / size, 20_000 / size}
	case "gather", "scatter", "alltoall":
		return []int{0, 1, 300, 700}
	}
	if size > 8 {
		return []int{0, 1, 700, 2500}
	}
	return []int{0, 1, 700, 17_000}
}

// inPlaceAndOrdered checks reductions with an operation that shows the order of its operands, and collectives whose
// parts are in place already.
func inPlaceAndOrdered(c *mplite.Comm) error {
	op := mplite.NewOp(false, compose)
	for _, n := range []int{0, 1, 9000} {
		want := maps(0, n)
		for r := 1; r < c.Size(); r++ {
			for i, m := range maps(r, n) {
				want[i] = compose(want[i], m)
			}
		}
		got := maps(c.Rank(), n)
		if err := mplite.Allreduce(bg, c, nil, got, op); err != nil {
			return err
		}
		if err := equal("ordered allreduce", n, got, want); err != nil {
			return err
		}
		for _, root := range []int{0, c.Size() / 2, c.Size() - 1} {
			send, recv := maps(c.Rank(), n), []uint64(nil)
			if c.Rank() == root {
				send, recv = nil, send
			}
			if err := mplite.Reduce(bg, c, send, recv, op, root); err != nil {
				return err
			}
			if c.Rank() == root {
				if err := equal("ordered reduce", n, recv, want); err != nil {
					return err
				}
			}
		}
	}
	return partsInPlace(c)
}

func partsInPlace(c *mplite.Comm) error {
	const n = 37
	size, me := c.Size(), c.Rank()
	all := joined(size, n)
	for _, root := range []int{0, size / 2, size - 1} {
		send, recv := vector(me, n), []float64(nil)
		if me == root {
			send, recv = nil, make([]float64, n*size)
			copy(recv[n*me:], vector(me, n))
		}
		if err := mplite.Gather(bg, c, send, recv, root); err != nil {
			return err
		}
		if me == root {
			if err := expect("gather in place", recv, all); err != nil {
				return err
			}
		}
		part := make([]float64, n)
		var from []float64
		if me == root {
			part, from = nil, joined(size, n)
		}
		if err := mplite.Scatter(bg, c, from, part, root); err != nil {
			return err
		}
		if me != root {
			if err := expect("scatter in place", part, vector(me, n)); err != nil {
				return err
			}
		}
	}
	got := make([]float64, n*size)
	copy(got[n*me:], vector(me, n))
	if err := mplite.Allgather(bg, c, nil, got); err != nil {
		return err
	}
	return expect("allgather in place", got, all)
}

// TestTwoLevelsNonblocking: the nonblocking forms give the same results, all of them at once.
func TestTwoLevelsNonblocking(t *testing.T) {
	const n, root = 200, 2
	op := mplite.NewOp(false, compose)
	for _, place := range [][]int{blocks(7, 3), cyclic(8, 3), blocks(8, 3)} {
		check(t, runOn(place, small, func(c *mplite.Comm) error {
			size, me := c.Size(), c.Rank()
			sum, total, ordered := vector(me, n), make([]float64, n), maps(me, n)
			all, gathered, part := make([]float64, n*size), make([]float64, n*size), make([]float64, n)
			from := make([]float64, n)
			if me == root {
				from = vector(root, n)
			}
			reqs := make([]mplite.Request, 8)
			var errs [8]error
			reqs[0], errs[0] = mplite.Iallreduce(c, nil, sum, mplite.Sum[float64]())
			reqs[1], errs[1] = mplite.Iallgather(c, vector(me, n), all)
			reqs[2], errs[2] = mplite.Ibcast(c, from, root)
			reqs[3], errs[3] = c.Ibarrier()
			reqs[4], errs[4] = mplite.Ireduce(c, vector(me, n), total, mplite.Sum[float64](), root)
			reqs[5], errs[5] = mplite.Igather(c, vector(me, n), gathered, root)
			reqs[6], errs[6] = mplite.Iscatter(c, joined(size, n), part, root)
			reqs[7], errs[7] = mplite.Iallreduce(c, nil, ordered, op)
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			if err := mplite.Waitall(bg, reqs, nil); err != nil {
				return err
			}
			want := maps(0, n)
			for r := 1; r < size; r++ {
				for i, m := range maps(r, n) {
					want[i] = compose(want[i], m)
				}
			}
			if me == root {
				errs[0] = expect("ireduce", total, summed(0, size, n))
				errs[1] = expect("igather", gathered, joined(size, n))
			}
			return errors.Join(errs[0], errs[1], expect("iallreduce", sum, summed(0, size, n)), expect("iallgather", all, joined(size, n)),
				expect("ibcast", from, vector(root, n)), expect("iscatter", part, vector(me, n)), equal("ordered iallreduce", n, ordered, want))
		}))
	}
}

// TestTwoLevelsMismatch: where ranks share hosts, a rank with another call, root or length gives every rank an error by its next
// collective. With 9000 elements the rank with another length selects other algorithms, too.
func TestTwoLevelsMismatch(t *testing.T) {
	for _, place := range [][]int{blocks(5, 2), cyclic(5, 2)} {
		for _, nonblocking := range []bool{false, true} {
			check(t, runOn(place, small, func(c *mplite.Comm) error {
				for i, usual := range ways(3, 0) {
					others := []way{ways(3, 0)[(i+1)%len(ways(3, 0))]}
					switch usual.name {
					case "bcast", "reduce", "gather", "gatherv", "scatter", "scatterv":
						others = append(others, ways(3, 1)[i], ways(3, 4)[i])
					}
					if usual.name != "barrier" {
						others = append(others, ways(4, 0)[i], ways(9000, 0)[i])
					}
					for _, other := range others {
						for rank := range c.Size() {
							if err := (odd{rank, usual, other}).meets(c, nonblocking, usual.name); err != nil {
								return err
							}
						}
					}
				}
				return nil
			}))
		}
	}
}

// TestTwoLevelsDead: a host that dies, with a leader and another rank, ends each collective with a RankError.
func TestTwoLevelsDead(t *testing.T) {
	for _, place := range [][]int{blocks(6, 2), cyclic(6, 3)} {
		for _, tc := range checks {
			cfg := small
			cfg.PeerTimeout = time.Second
			j := newJob(len(place), sim.Options{}, cfg)
			gone := func(rank int) bool { return place[rank] == 1 }
			j.startOn(place, func(c *mplite.Comm) error {
				if err := c.Barrier(bg); err != nil {
					return err
				}
				if gone(c.Rank()) {
					if err := j.Sleep(20 * time.Millisecond); err != nil { // the barrier has ended everywhere
						return err
					}
					j.Kill(j.stations[1])
					return errKilled
				}
				var err error
				for range 3 { // a rank may be through with the first before it knows
					if err = tc.run(c, 3000); err != nil {
						break
					}
				}
				var dead *mplite.RankError
				if !errors.As(err, &dead) || !gone(dead.Rank) {
					return fmt.Errorf("%s ended with %v, want a RankError of a rank on host 1", tc.name, err)
				}
				j.stays(c, 4)
				return errKilled // without Finalize, whose barrier must fail
			})
			if err := j.runKilled(); err != nil {
				t.Errorf("%s, ranks on hosts %v: %v", tc.name, place, err)
			}
		}
	}
}
