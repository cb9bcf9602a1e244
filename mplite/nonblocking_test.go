package mplite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// A collected is one call of a collective in its two forms, and the check of its
// result against the naive one.
type collected struct {
	name  string
	start func() (mplite.Request, error)
	call  func() error
	same  func() error
}

// draw returns a collective with random root, lengths, counts, displacements and
// use of the buffers in place. All ranks draw the same from equal rngs.
func draw(c *mplite.Comm, rng *rand.Rand) collected {
	d := drawn{c: c, me: c.Rank(), size: c.Size(), root: rng.IntN(c.Size()), inPlace: rng.IntN(2) == 0, id: rng.IntN(100)}
	d.n = []int{0, 1, 3, 40, 700, 5000}[rng.IntN(6)]
	d.counts, d.displs = make([]int, d.size), make([]int, d.size)
	for i, at := range rng.Perm(d.size) {
		d.counts[i] = rng.IntN(d.n + 1)
		d.displs[i] = at * (d.n + 2)
	}
	kinds := []func() collected{
		d.barrier, d.bcast, d.reduce, d.allreduce, d.gather, d.gatherv, d.scatter, d.scatterv, d.allgather,
		d.allgatherv, d.alltoall, d.alltoallv, d.reduceScatter, d.scan, d.exscan,
	}
	return kinds[rng.IntN(len(kinds))]()
}

type drawn struct {
	c              *mplite.Comm
	me, size, root int
	n, id          int
	inPlace        bool
	counts, displs []int
}

// part is what a rank contributes, n elements of it.
func (d *drawn) part(rank, n int) []uint64 { return maps(rank+d.id, n) }

// reduced is the ordered reduction over the ranks from 0 up to end.
func (d *drawn) reduced(end, n int) []uint64 {
	v := d.part(0, n)
	for r := 1; r < end; r++ {
		for i, m := range d.part(r, n) {
			v[i] = compose(v[i], m)
		}
	}
	return v
}

// placed returns the buffer in which each rank's part lies at its displacement.
func (d *drawn) placed(parts func(rank int) []uint64) []uint64 {
	b := make([]uint64, d.size*(d.n+2))
	for r := range d.size {
		copy(b[d.displs[r]:], parts(r))
	}
	return b
}

// joined returns equal parts of n elements one behind the other.
func (d *drawn) joined(part func(rank int) []uint64) (all []uint64) {
	for r := range d.size {
		all = append(all, part(r)...)
	}
	return all
}

// own returns this rank's part; nil, and the part laid into where it belongs, if
// it is given in place.
func (d *drawn) own(into, part []uint64, inPlace bool) []uint64 {
	if !inPlace {
		return part
	}
	copy(into, part)
	return nil
}

// at returns v at the root, nothing elsewhere.
func (d *drawn) at(v []uint64) []uint64 {
	if d.me != d.root {
		return nil
	}
	return v
}

func (d *drawn) check(name string, got, want []uint64) func() error {
	return func() error {
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s of %d at rank %d of %d, root %d, in place %v: wrong result", name, d.n, d.me, d.size, d.root, d.inPlace)
		}
		return nil
	}
}

var composed = mplite.NewOp(false, compose)

func (d *drawn) barrier() collected {
	return collected{"barrier", d.c.Ibarrier, func() error { return d.c.Barrier(bg) }, func() error { return nil }}
}

func (d *drawn) bcast() collected {
	buf := make([]uint64, d.n)
	if d.me == d.root {
		buf = d.part(d.root, d.n)
	}
	return collected{"bcast",
		func() (mplite.Request, error) { return mplite.Ibcast(d.c, buf, d.root) },
		func() error { return mplite.Bcast(bg, d.c, buf, d.root) },
		d.check("bcast", buf, d.part(d.root, d.n)),
	}
}

func (d *drawn) reduce() collected {
	recv := d.at(make([]uint64, d.n))
	send := d.own(recv, d.part(d.me, d.n), d.inPlace && d.me == d.root)
	return collected{"reduce",
		func() (mplite.Request, error) { return mplite.Ireduce(d.c, send, recv, composed, d.root) },
		func() error { return mplite.Reduce(bg, d.c, send, recv, composed, d.root) },
		d.check("reduce", recv, d.at(d.reduced(d.size, d.n))),
	}
}

func (d *drawn) allreduce() collected {
	recv := make([]uint64, d.n)
	send := d.own(recv, d.part(d.me, d.n), d.inPlace)
	return collected{"allreduce",
		func() (mplite.Request, error) { return mplite.Iallreduce(d.c, send, recv, composed) },
		func() error { return mplite.Allreduce(bg, d.c, send, recv, composed) },
		d.check("allreduce", recv, d.reduced(d.size, d.n)),
	}
}

func (d *drawn) gather() collected {
	part := func(r int) []uint64 { return d.part(r, d.n) }
	recv := d.at(make([]uint64, d.n*d.size))
	send := part(d.me)
	if d.me == d.root {
		send = d.own(recv[d.me*d.n:], send, d.inPlace)
	}
	return collected{"gather",
		func() (mplite.Request, error) { return mplite.Igather(d.c, send, recv, d.root) },
		func() error { return mplite.Gather(bg, d.c, send, recv, d.root) },
		d.check("gather", recv, d.at(d.joined(part))),
	}
}

func (d *drawn) gatherv() collected {
	part := func(r int) []uint64 { return d.part(r, d.counts[r]) }
	recv := d.at(make([]uint64, d.size*(d.n+2)))
	send := part(d.me)
	if d.me == d.root {
		send = d.own(recv[d.displs[d.me]:], send, d.inPlace)
	}
	return collected{"gatherv",
		func() (mplite.Request, error) { return mplite.Igatherv(d.c, send, recv, d.counts, d.root, d.displs) },
		func() error { return mplite.Gatherv(bg, d.c, send, recv, d.counts, d.root, d.displs) },
		d.check("gatherv", recv, d.at(d.placed(part))),
	}
}

func (d *drawn) scatter() collected {
	part := func(r int) []uint64 { return d.part(r, d.n) }
	send, recv := d.at(d.joined(part)), make([]uint64, d.n)
	got := recv
	if d.inPlace && d.me == d.root {
		recv, got = nil, send[d.n*d.me:d.n*(d.me+1)]
	}
	return collected{"scatter",
		func() (mplite.Request, error) { return mplite.Iscatter(d.c, send, recv, d.root) },
		func() error { return mplite.Scatter(bg, d.c, send, recv, d.root) },
		d.check("scatter", got, part(d.me)),
	}
}

func (d *drawn) scatterv() collected {
	part := func(r int) []uint64 { return d.part(r, d.counts[r]) }
	send, recv := d.at(d.placed(part)), make([]uint64, d.counts[d.me])
	got := recv
	if d.inPlace && d.me == d.root {
		recv, got = nil, send[d.displs[d.me]:d.displs[d.me]+d.counts[d.me]]
	}
	return collected{"scatterv",
		func() (mplite.Request, error) { return mplite.Iscatterv(d.c, send, d.counts, recv, d.root, d.displs) },
		func() error { return mplite.Scatterv(bg, d.c, send, d.counts, recv, d.root, d.displs) },
		d.check("scatterv", got, part(d.me)),
	}
}

func (d *drawn) allgather() collected {
	part := func(r int) []uint64 { return d.part(r, d.n) }
	recv := make([]uint64, d.n*d.size)
	send := d.own(recv[d.me*d.n:], part(d.me), d.inPlace)
	return collected{"allgather",
		func() (mplite.Request, error) { return mplite.Iallgather(d.c, send, recv) },
		func() error { return mplite.Allgather(bg, d.c, send, recv) },
		d.check("allgather", recv, d.joined(part)),
	}
}

func (d *drawn) allgatherv() collected {
	part := func(r int) []uint64 { return d.part(r, d.counts[r]) }
	recv := make([]uint64, d.size*(d.n+2))
	send := d.own(recv[d.displs[d.me]:], part(d.me), d.inPlace)
	return collected{"allgatherv",
		func() (mplite.Request, error) { return mplite.Iallgatherv(d.c, send, recv, d.counts, d.displs) },
		func() error { return mplite.Allgatherv(bg, d.c, send, recv, d.counts, d.displs) },
		d.check("allgatherv", recv, d.placed(part)),
	}
}

func (d *drawn) alltoall() collected {
	recv := make([]uint64, d.n*d.size)
	send := d.own(recv, d.joined(func(r int) []uint64 { return d.part(10*d.me+r, d.n) }), d.inPlace)
	return collected{"alltoall",
		func() (mplite.Request, error) { return mplite.Ialltoall(d.c, send, recv) },
		func() error { return mplite.Alltoall(bg, d.c, send, recv) },
		d.check("alltoall", recv, d.joined(func(r int) []uint64 { return d.part(10*r+d.me, d.n) })),
	}
}

func (d *drawn) alltoallv() collected {
	n := func(from, to int) int { return (d.counts[from] + d.counts[to]) / 2 } // as exchanges in place need it
	sendCounts, recvCounts := make([]int, d.size), make([]int, d.size)
	for r := range d.size {
		sendCounts[r], recvCounts[r] = n(d.me, r), n(r, d.me)
	}
	send := d.placed(func(r int) []uint64 { return d.part(10*d.me+r, n(d.me, r)) })
	recv := make([]uint64, len(send))
	if send = d.own(recv, send, d.inPlace); d.inPlace {
		sendCounts = nil
	}
	want := d.placed(func(r int) []uint64 { return d.part(10*r+d.me, n(r, d.me)) })
	return collected{"alltoallv",
		func() (mplite.Request, error) {
			return mplite.Ialltoallv(d.c, send, sendCounts, recv, recvCounts, d.displs, d.displs)
		},
		func() error {
			return mplite.Alltoallv(bg, d.c, send, sendCounts, recv, recvCounts, d.displs, d.displs)
		},
		d.check("alltoallv", recv, want),
	}
}

func (d *drawn) reduceScatter() collected {
	sum, lo := 0, 0
	for r, n := range d.counts {
		if r == d.me {
			lo = sum
		}
		sum += n
	}
	count := d.counts[d.me]
	recv := make([]uint64, count)
	if d.inPlace {
		recv = make([]uint64, sum)
	}
	send := d.own(recv, d.part(d.me, sum), d.inPlace)
	return collected{"reduce_scatter",
		func() (mplite.Request, error) { return mplite.IreduceScatter(d.c, send, recv, d.counts, composed) },
		func() error { return mplite.ReduceScatter(bg, d.c, send, recv, d.counts, composed) },
		d.check("reduce_scatter", recv[:count], d.reduced(d.size, sum)[lo:lo+count]),
	}
}

func (d *drawn) scan() collected {
	recv := make([]uint64, d.n)
	send := d.own(recv, d.part(d.me, d.n), d.inPlace)
	return collected{"scan",
		func() (mplite.Request, error) { return mplite.Iscan(d.c, send, recv, composed) },
		func() error { return mplite.Scan(bg, d.c, send, recv, composed) },
		d.check("scan", recv, d.reduced(d.me+1, d.n)),
	}
}

func (d *drawn) exscan() collected {
	recv := make([]uint64, d.n)
	want := slices.Clone(recv)
	send := d.own(recv, d.part(d.me, d.n), d.inPlace)
	if d.me > 0 {
		want = d.reduced(d.me, d.n)
	} else if d.inPlace {
		want = d.part(0, d.n)
	}
	return collected{"exscan",
		func() (mplite.Request, error) { return mplite.Iexscan(d.c, send, recv, composed) },
		func() error { return mplite.Exscan(bg, d.c, send, recv, composed) },
		d.check("exscan", recv, want),
	}
}

// TestNonblockingCollectives has many collectives under way at once, on several
// communicators and among messages, beside blocking ones, and ends them in an
// order of its own on every rank and by every kind of call.
func TestNonblockingCollectives(t *testing.T) {
	seeds(t, 12, func(seed uint64) error {
		size := []int{1, 2, 3, 4, 5, 8, 9}[seed%7]
		opts := sim.Options{Seed: seed}
		if seed%3 == 0 {
			opts.Loss, opts.Dup, opts.Reorder = 0.03, 0.02, 0.05
		}
		return runJob(size, opts, small, func(c *mplite.Comm) error {
			rows, err := c.Split(bg, c.Rank()%2, -c.Rank())
			if err != nil {
				return err
			}
			all, own := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, uint64(2+c.Rank())))
			row := rand.New(rand.NewPCG(seed, uint64(1000+c.Rank()%2)))
			for range 4 {
				if err := manyAtOnce(c, rows, all, row, own); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func manyAtOnce(c, rows *mplite.Comm, all, row, own *rand.Rand) error {
	const each = 6
	var begun []collected
	var reqs []mplite.Request
	add := func(d collected, r mplite.Request, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		begun, reqs = append(begun, d), append(reqs, r)
		return nil
	}
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for tag := range each {
		for _, d := range []collected{draw(c, all), draw(rows, row)} {
			r, err := d.start()
			if err := add(d, r, err); err != nil {
				return err
			}
		}
		got := make([]byte, 3000)
		message := collected{"message", nil, nil, func() error { return same(got, uint64(tag)) }}
		r, err := c.Irecv(got, prev, tag)
		if err := add(message, r, err); err != nil {
			return err
		}
		r, err = c.Isend(content(len(got), uint64(tag)), next, tag)
		if err := add(collected{"send", nil, nil, func() error { return nil }}, r, err); err != nil {
			return err
		}
		if d := draw(c, all); tag == each/2 { // while others are under way
			if err := errors.Join(d.call(), d.same()); err != nil {
				return err
			}
		}
	}
	return endInAnyOrder(begun, reqs, own)
}

func endInAnyOrder(begun []collected, reqs []mplite.Request, own *rand.Rand) error {
	own.Shuffle(len(reqs), func(i, k int) {
		reqs[i], reqs[k] = reqs[k], reqs[i]
		begun[i], begun[k] = begun[k], begun[i]
	})
	switch own.IntN(4) {
	case 0:
		if err := mplite.Waitall(bg, reqs, nil); err != nil {
			return err
		}
	case 1:
		for range reqs {
			if i, _, err := mplite.Waitany(bg, reqs); err != nil || begun[i].same() != nil {
				return fmt.Errorf("%s: %w", begun[i].name, err)
			}
		}
	case 2:
		for i, r := range reqs {
			if _, err := r.Wait(bg); err != nil {
				return fmt.Errorf("%s: %w", begun[i].name, err)
			}
		}
	default: // what Test does not find ended, Wait ends
		for i, r := range reqs {
			_, done, err := r.Test()
			if !done {
				_, err = r.Wait(bg)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", begun[i].name, err)
			}
		}
	}
	for _, d := range begun {
		if err := d.same(); err != nil {
			return err
		}
	}
	return nil
}

// TestInPlaceAndDisplacements compares the blocking forms with the naive result.
func TestInPlaceAndDisplacements(t *testing.T) {
	seeds(t, 6, func(seed uint64) error {
		return runJob(2+int(seed%8), sim.Options{Seed: seed}, small, func(c *mplite.Comm) error {
			rng := rand.New(rand.NewPCG(seed, 5))
			for range 60 {
				d := draw(c, rng)
				if err := errors.Join(d.call(), d.same()); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// TestNonblockingProgress: a collective goes on while its ranks wait for
// something else, here for messages that are sent only when it has ended.
func TestNonblockingProgress(t *testing.T) {
	check(t, runJob(5, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, n := range []int{1, 3000} {
			v := vector(c.Rank(), n)
			r, err := mplite.Iallreduce(c, nil, v, mplite.Sum[float64]())
			if err != nil {
				return err
			}
			if c.Rank() == 2 {
				if _, err := r.Wait(bg); err != nil {
					return err
				}
				for dst := range c.Size() {
					if dst != 2 {
						if err := c.Send(bg, nil, dst, 0); err != nil {
							return err
						}
					}
				}
			} else {
				if _, err := c.Recv(bg, nil, 2, 0); err != nil {
					return err
				}
				if _, err := r.Wait(bg); err != nil {
					return err
				}
			}
			if err := expect("iallreduce", v, summed(0, c.Size(), n)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestNonblockingFreed: Free of a communicator lets the collectives under way on
// it end.
func TestNonblockingFreed(t *testing.T) {
	check(t, runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		d, err := c.Dup(bg)
		if err != nil {
			return err
		}
		v := vector(c.Rank(), 9)
		r, err := mplite.Iallreduce(d, nil, v, mplite.Sum[float64]())
		if err != nil {
			return err
		}
		if err := d.Free(); err != nil {
			return err
		}
		if _, err := d.Ibarrier(); !errors.Is(err, mplite.ErrFinalized) {
			return fmt.Errorf("a barrier on what is freed: %w", err)
		}
		if _, err := r.Wait(bg); err != nil {
			return err
		}
		return expect("iallreduce", v, summed(0, 4, 9))
	}))
}

// TestNonblockingDeath: the death of a rank ends collectives under way on its
// communicators, and no others.
func TestNonblockingDeath(t *testing.T) {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(4, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		living, err := c.Split(bg, c.Rank()/3, 0)
		if err != nil {
			return err
		}
		if c.Rank() == 3 {
			return errKilled
		}
		var reqs []mplite.Request
		for _, start := range []func() (mplite.Request, error){
			c.Ibarrier,
			func() (mplite.Request, error) {
				return mplite.Iallreduce(c, nil, make([]int, 2000), mplite.Sum[int]())
			},
			func() (mplite.Request, error) { return mplite.Ibcast(c, make([]int, 2000), 3) },
		} {
			r, err := start()
			if err != nil {
				if !errors.Is(err, mplite.ErrRankFailed) {
					return err
				}
				continue
			}
			reqs = append(reqs, r)
		}
		for _, r := range reqs {
			if _, err := r.Wait(bg); !errors.Is(err, mplite.ErrRankFailed) {
				return fmt.Errorf("it ended with %w", err)
			}
		}
		sum := []int{c.Rank()}
		r, err := mplite.Iallreduce(living, nil, sum, mplite.Sum[int]())
		if err != nil {
			return err
		}
		if _, err := r.Wait(bg); err != nil || sum[0] != 3 {
			return fmt.Errorf("sum of the living is %d, %w", sum[0], err)
		}
		j.stays(c, 3)
		return errKilled
	})
	check(t, j.runKilled())
}
