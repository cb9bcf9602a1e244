package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// sizes cross every boundary: empty, inside a frame, eager, just over, large.
var sizes = []int{0, 1, 64, 1400, 16_384, 16_385, 100_000}

func TestSendRecv(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		return runJob(2, sim.Options{Seed: seed, Loss: 0.02 * float64((seed-1)%16)}, mplite.Config{}, func(c *mplite.Comm) error {
			peer := 1 - c.Rank()
			for tag, n := range sizes {
				buf := make([]byte, n+10)
				if c.Rank() == 0 {
					if err := c.Send(bg, content(n, uint64(n)), peer, tag); err != nil {
						return err
					}
				}
				st, err := c.Recv(bg, buf, peer, tag)
				if err != nil {
					return err
				}
				if want := (mplite.Status{Source: peer, Tag: tag, Count: n}); st != want {
					return fmt.Errorf("status %+v, want %+v", st, want)
				}
				if err := same(buf[:n], uint64(n)); err != nil {
					return err
				}
				if c.Rank() == 1 {
					if err := c.Send(bg, buf[:n], peer, tag); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// TestSeveralWrites: a message beyond the longest RDMA write takes several.
func TestSeveralWrites(t *testing.T) {
	check(t, runJob(2, sim.Options{Seed: 1, Loss: 0.02}, small, func(c *mplite.Comm) error {
		mplite.SetMaxWrite(c, 10_000)
		for i, n := range []int{9_999, 10_000, 10_001, 20_000, 95_000} {
			if c.Rank() == 0 {
				if err := c.Send(bg, content(n, uint64(i)), 1, 0); err != nil {
					return err
				}
				continue
			}
			buf := make([]byte, n)
			if _, err := c.Recv(bg, buf, 0, 0); err != nil {
				return err
			}
			if err := same(buf, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestTruncationDisturbsNothing(t *testing.T) {
	err := runJob(2, sim.Options{}, mplite.Config{}, func(c *mplite.Comm) error {
		for _, n := range sizes[1:] {
			if c.Rank() == 0 {
				for i := range 3 {
					if err := c.Send(bg, content(n, uint64(i)), 1, 5); err != nil {
						return err
					}
				}
				continue
			}
			for i := range 3 {
				short := n
				if i == 1 {
					short = n / 2
				}
				buf := make([]byte, short)
				_, err := c.Recv(bg, buf, 0, 5)
				var te *mplite.TruncateError
				switch {
				case i != 1 && err != nil:
					return err
				case i == 1 && (!errors.As(err, &te) || !errors.Is(err, mplite.ErrTruncate) || te.Size != n || te.Room != short):
					return fmt.Errorf("message of %d in %d bytes: %v", n, short, err)
				}
				if string(buf) != string(content(n, uint64(i))[:short]) {
					return fmt.Errorf("message %d of %d bytes is damaged", i, n)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var fromNone = mplite.Status{Source: mplite.None, Tag: mplite.AnyTag}

// TestNullProcess: every send to it and receive from it ends at once, without a
// message and without touching the buffer.
func TestNullProcess(t *testing.T) {
	const none = mplite.None
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	buf, nums := []byte{1, 2, 3}, []int32{4, 5, 6}
	never := canceled() // nothing waits
	waited := func(r mplite.Request, err error) (mplite.Status, error) {
		if err != nil {
			return mplite.Status{}, err
		}
		return r.Wait(never)
	}
	check(t, errors.Join(c.Send(never, buf, none, 1), c.Ssend(never, buf, none, 1),
		mplite.Send(never, c, nums, none, 1), mplite.Ssend(never, c, nums, none, 1)))
	for _, start := range []func() (mplite.Request, error){
		func() (mplite.Request, error) { return c.Isend(buf, none, 1) },
		func() (mplite.Request, error) { return c.Issend(buf, none, 1) },
		func() (mplite.Request, error) { return mplite.Isend(c, nums, none, 1) },
	} {
		if st, err := waited(start()); err != nil || st != (mplite.Status{}) {
			t.Errorf("a send to none ended with %+v, %v", st, err)
		}
	}
	for i, recv := range []func() (mplite.Status, error){
		func() (mplite.Status, error) { return c.Recv(never, buf, none, 1) },
		func() (mplite.Status, error) { return c.Recv(never, buf, none, mplite.AnyTag) },
		func() (mplite.Status, error) { return mplite.Recv(never, c, nums, none, 1) },
		func() (mplite.Status, error) { return waited(c.Irecv(buf, none, 1)) },
		func() (mplite.Status, error) { return waited(mplite.Irecv(c, nums, none, 1)) },
		func() (mplite.Status, error) { return c.Probe(never, none, 1) },
		func() (mplite.Status, error) {
			st, found, err := c.Iprobe(none, mplite.AnyTag)
			if !found {
				err = errors.New("Iprobe found nothing")
			}
			return st, err
		},
		func() (mplite.Status, error) { return c.Sendrecv(never, buf, none, 1, buf, none, 1) },
	} {
		if st, err := recv(); err != nil || st != fromNone {
			t.Errorf("receive %d from none ended with %+v, %v, want %+v", i, st, err, fromNone)
		}
	}
	if buf[0] != 1 || nums[0] != 4 {
		t.Error("a buffer was touched")
	}
	for _, err := range []error{c.Send(bg, buf, none, -1), second(c.Recv(bg, buf, none, -7)), second(c.Sendrecv(bg, buf, none, -1, buf, 0, 0))} {
		if !errors.Is(err, mplite.ErrTag) {
			t.Errorf("got %v, want ErrTag", err)
		}
	}
	if err := c.Bcast(bg, buf, none); !errors.Is(err, mplite.ErrRank) {
		t.Errorf("none as root: %v", err)
	}
	check(t, c.Finalize(bg))
	if err := c.Send(bg, buf, none, 1); !errors.Is(err, mplite.ErrFinalized) {
		t.Errorf("after Finalize: %v", err)
	}
}

// TestHaloWithoutPeriods: a program exchanges halos over the edges of a grid
// without asking where they are.
func TestHaloWithoutPeriods(t *testing.T) {
	check(t, runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		g, err := c.CartCreate(bg, []int{4}, []bool{false})
		if err != nil {
			return err
		}
		for _, n := range []int{5, 3000} {
			for _, disp := range []int{1, -1, 3} {
				src, dst, err := g.Shift(0, disp)
				if err != nil {
					return err
				}
				halo := make([]int, n)
				halo[0] = -1
				mine := make([]int, n)
				mine[0] = g.Rank()
				st, err := mplite.Sendrecv(bg, g.Comm, mine, dst, disp+3, halo, src, disp+3)
				want, status := g.Rank()-disp, mplite.Status{Source: src, Tag: disp + 3, Count: 8 * n}
				if src == mplite.None {
					want, status = -1, fromNone
				}
				if err != nil || halo[0] != want || st != status {
					return fmt.Errorf("shift by %d got %d, %+v, %v; want %d, %+v", disp, halo[0], st, err, want, status)
				}
			}
		}
		return nil
	}))
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOrder: messages of random sizes, eager and not, with one tag, arrive in
// the order sent, whether received by source or not.
func TestOrder(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.03, Reorder: 0.1}
		return runJob(3, opts, small, func(c *mplite.Comm) error {
			const n = 200
			if c.Rank() != 0 {
				rng := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
				for i := range n {
					b := content(rng.IntN(2000), uint64(i))
					if err := c.Send(bg, append(b, byte(i)), 0, rng.IntN(2)); err != nil {
						return err
					}
				}
				return nil
			}
			next := [3]int{}
			buf := make([]byte, 3000)
			for range 2 * n {
				st, err := c.Recv(bg, buf, mplite.AnySource, mplite.AnyTag)
				if err != nil {
					return err
				}
				if got := int(buf[st.Count-1]); got != next[st.Source]%256 {
					return fmt.Errorf("got message %d of rank %d, want %d", got, st.Source, next[st.Source])
				}
				if err := same(buf[:st.Count-1], uint64(next[st.Source])); err != nil {
					return err
				}
				next[st.Source]++
			}
			return nil
		})
	})
}

// TestRandomTraffic: every rank sends every other one messages of all kinds,
// and receives them with non-blocking receives posted in any order.
func TestRandomTraffic(t *testing.T) {
	seeds(t, 8, func(seed uint64) error {
		opts := sim.Options{Seed: seed, Loss: 0.02, Dup: 0.02, Reorder: 0.05}
		return runJob(4, opts, small, func(c *mplite.Comm) error {
			rng := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
			const n = 40
			size := func(from, to, tag int) int { return (from*977 + to*331 + tag*613) % 3000 }
			var reqs []mplite.Request
			bufs := map[int][]byte{}
			for _, i := range rng.Perm(2 * n * 3) {
				peer, tag := (c.Rank()+1+i%3)%4, i/6
				var r mplite.Request
				var err error
				switch {
				case i/3%2 == 0:
					b := content(size(c.Rank(), peer, tag), uint64(tag))
					if tag%3 == 0 {
						r, err = c.Issend(b, peer, tag)
					} else {
						r, err = c.Isend(b, peer, tag)
					}
				default:
					b := make([]byte, size(peer, c.Rank(), tag))
					bufs[peer*1000+tag] = b
					r, err = c.Irecv(b, peer, tag)
				}
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			for {
				i, _, err := mplite.Waitany(bg, reqs)
				if err != nil {
					return err
				}
				if i < 0 {
					break
				}
			}
			for key, b := range bufs {
				if err := same(b, uint64(key%1000)); err != nil {
					return fmt.Errorf("from rank %d: %w", key/1000, err)
				}
			}
			if s := c.Snapshot(); s.SpillBytes != 0 || s.Strays != 0 {
				return fmt.Errorf("left over: %+v", s)
			}
			return nil
		})
	})
}

// TestFlood: far more unexpected messages than there is room for push back on
// the sender and are all received in the end, while a control message of a
// rendezvous the other way gets through.
func TestFlood(t *testing.T) {
	cfg := mplite.Config{EagerSize: 256, Credits: 4, SpillLimit: 4 << 10}
	err := runJob(2, sim.Options{}, cfg, func(c *mplite.Comm) error {
		const n = 500
		big := make([]byte, 10_000)
		if c.Rank() == 0 {
			var reqs []mplite.Request
			for i := range n {
				r, err := c.Isend(content(200, uint64(i)), 1, 1)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if _, err := c.Recv(bg, big, 1, 2); err != nil { // while all credits are spent
				return err
			}
			if err := same(big, 99); err != nil {
				return err
			}
			if err := mplite.Waitall(bg, reqs, nil); err != nil {
				return err
			}
			if s := c.Snapshot(); s.CreditStalls == 0 {
				return errors.New("no send had to wait")
			}
			return nil
		}
		if err := c.Send(bg, content(len(big), 99), 0, 2); err != nil {
			return err
		}
		if s := c.Snapshot(); s.Unexpected > 32 || s.SpillBytes > cfg.SpillLimit {
			return fmt.Errorf("%d messages and %d bytes are held, beyond the limits", s.Unexpected, s.SpillBytes)
		}
		buf := make([]byte, 200)
		for i := range n {
			if _, err := c.Recv(bg, buf, 0, 1); err != nil {
				return err
			}
			if err := same(buf, uint64(i)); err != nil {
				return err
			}
		}
		return nil
	})
	check(t, err)
}

func TestProbe(t *testing.T) {
	err := runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, n := range []int{0, 100, 5000} {
			if c.Rank() == 0 {
				if err := c.Send(bg, content(n, 1), 1, 4); err != nil {
					return err
				}
				continue
			}
			if _, found, err := c.Iprobe(0, 5); found || err != nil {
				return fmt.Errorf("probe of another tag: %v, %v", found, err)
			}
			st, err := c.Probe(bg, mplite.AnySource, mplite.AnyTag)
			if want := (mplite.Status{Source: 0, Tag: 4, Count: n}); err != nil || st != want {
				return fmt.Errorf("probe: %+v, %v, want %+v", st, err, want)
			}
			if st, found, err := c.Iprobe(0, 4); !found || err != nil || st.Count != n {
				return fmt.Errorf("probe again: %+v, %v, %v", st, found, err)
			}
			buf := make([]byte, st.Count)
			if _, err := c.Recv(bg, buf, st.Source, st.Tag); err != nil {
				return err
			}
			if err := same(buf, 1); err != nil {
				return err
			}
		}
		return nil
	})
	check(t, err)
}

// TestSsendWaitsForTheReceive compares the sender's clock with the receiver's.
func TestSsendWaitsForTheReceive(t *testing.T) {
	j := newJob(2, sim.Options{}, small)
	var posted int64
	j.start(func(c *mplite.Comm) error {
		for _, n := range []int{0, 5000} {
			if c.Rank() == 1 {
				if err := j.Sleep(50 * time.Millisecond); err != nil {
					return err
				}
				posted = j.Now()
				if _, err := c.Recv(bg, make([]byte, n), 0, 0); err != nil {
					return err
				}
				continue
			}
			if err := c.Ssend(bg, make([]byte, n), 1, 0); err != nil {
				return err
			}
			if j.Now() < posted || posted == 0 {
				return fmt.Errorf("send of %d bytes ended before the receive began", n)
			}
			posted = 0
		}
		return nil
	})
	check(t, j.run())
}

func TestCommunicatorsDoNotMix(t *testing.T) {
	err := runJob(4, sim.Options{}, small, func(c *mplite.Comm) error {
		dup, err := c.Dup(bg)
		if err != nil {
			return err
		}
		half, err := c.Split(bg, c.Rank()%2, -c.Rank()) // in reverse order
		if err != nil {
			return err
		}
		if half.Size() != 2 || half.Rank() != 1-c.Rank()/2 || half.JobRank(half.Rank()) != c.Rank() {
			return fmt.Errorf("rank %d has rank %d of %d in its half", c.Rank(), half.Rank(), half.Size())
		}
		next, prev := (c.Rank()+1)%4, (c.Rank()+3)%4
		any, err := c.Irecv(make([]byte, 50), mplite.AnySource, mplite.AnyTag)
		if err != nil {
			return err
		}
		for _, check := range checks { // its messages must not end it
			if err := check.run(c, 300); err != nil {
				return err
			}
		}
		if err := c.Send(bg, nil, next, 1); err != nil {
			return err
		}
		if st, err := any.Wait(bg); err != nil || st.Source != prev || st.Tag != 1 {
			return fmt.Errorf("the receive from anybody ended with %+v, %v", st, err)
		}
		for id, comm := range []*mplite.Comm{c, dup} { // same ranks, same tag
			if err := comm.Send(bg, content(50, uint64(id)), next, 3); err != nil {
				return err
			}
		}
		if err := half.Send(bg, content(50, 2), 1-half.Rank(), 3); err != nil {
			return err
		}
		buf := make([]byte, 50)
		for _, tc := range []struct {
			comm   *mplite.Comm
			id     uint64
			source int
		}{{half, 2, 1 - half.Rank()}, {dup, 1, prev}, {c, 0, prev}} {
			st, err := tc.comm.Recv(bg, buf, mplite.AnySource, mplite.AnyTag)
			if err != nil || st.Source != tc.source {
				return fmt.Errorf("communicator %d: %+v, %v", tc.id, st, err)
			}
			if err := same(buf, tc.id); err != nil {
				return err
			}
		}
		if none, err := c.Split(bg, mplite.Undefined, 0); none != nil || err != nil {
			return fmt.Errorf("split without a color: %v, %v", none, err)
		}
		if err := dup.Free(); err != nil {
			return err
		}
		if err := dup.Send(bg, nil, 0, 0); !errors.Is(err, mplite.ErrFinalized) {
			return fmt.Errorf("send on a freed communicator: %v", err)
		}
		return nil
	})
	check(t, err)
}

// TestSelf: a rank alone needs no network and can send to itself.
func TestSelf(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	for _, n := range sizes {
		in := make([]byte, n)
		r, err := c.Irecv(in, 0, 1)
		check(t, err)
		check(t, c.Send(bg, content(n, 1), 0, 1))
		_, err = r.Wait(bg)
		check(t, err)
		check(t, same(in, 1))
		clear(in)
		s, err := c.Issend(content(n, 2), 0, 1)
		check(t, err)
		if _, done, _ := s.Test(); done {
			t.Fatal("a synchronous send ended without a receive")
		}
		_, err = c.Recv(bg, in, mplite.AnySource, mplite.AnyTag)
		check(t, err)
		check(t, same(in, 2))
		_, err = s.Wait(bg)
		check(t, err)
	}
	for _, ch := range checks {
		check(t, ch.run(c, 10))
	}
	if _, err := c.Recv(canceled(), nil, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a receive that nobody answers ended with %v", err)
	}
	check(t, c.Finalize(bg))
	if err := c.Barrier(bg); !errors.Is(err, mplite.ErrFinalized) {
		t.Errorf("barrier after Finalize: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	return ctx
}

// TestGoroutines: two goroutines of one rank wake each other.
func TestGoroutines(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	done := make(chan error)
	go func() {
		buf := make([]byte, 1)
		for range 1000 {
			if _, err := c.Recv(bg, buf, 0, 1); err != nil {
				done <- err
				return
			}
			if err := c.Send(bg, buf, 0, 2); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 1000 {
		check(t, c.Ssend(bg, []byte{byte(i)}, 0, 1))
		_, err := c.Probe(bg, 0, 2)
		check(t, err)
		_, err = c.Recv(bg, make([]byte, 1), 0, 2)
		check(t, err)
	}
	check(t, <-done)
}

// TestErrorsSpeak: wrong arguments say what is wrong and do no harm.
func TestErrorsSpeak(t *testing.T) {
	err := runJob(2, sim.Options{}, small, func(c *mplite.Comm) error {
		for _, tc := range []struct {
			err   error
			class error
			text  string
		}{
			{c.Send(bg, nil, 2, 0), mplite.ErrRank, "rank 2 is not in 0..1"},
			{c.Send(bg, nil, -1, 0), mplite.ErrRank, "rank -1 is not in 0..1"},
			{c.Send(bg, nil, 1, -1), mplite.ErrTag, "tag -1"},
			{second(c.Recv(bg, nil, 5, 0)), mplite.ErrRank, "rank 5"},
			{second(c.Recv(bg, nil, 0, -7)), mplite.ErrTag, "tag -7"},
			{c.Bcast(bg, nil, 9), mplite.ErrRank, "root 9"},
			{mplite.Allreduce(bg, c, []int{1}, []int{1, 2}, mplite.Sum[int]()), mplite.ErrArgument, "send has 1 elements, want 2"},
		} {
			if !errors.Is(tc.err, tc.class) || !contains(tc.err, tc.text) {
				return fmt.Errorf("got %v, want %v with %q", tc.err, tc.class, tc.text)
			}
		}
		return c.Barrier(bg)
	})
	check(t, err)
}

func second[T any](_ T, err error) error { return err }

// TestSizesDiffer: ranks that disagree about the size of the job say so.
func TestSizesDiffer(t *testing.T) {
	w := sim.New(sim.Options{})
	for rank := range 2 {
		station := w.Station(fmt.Sprint("rank ", rank))
		w.Go(station.String(), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station, Seed: 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			_, err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "j", Rank: rank, Size: 2 + rank, NIC: nic, Timeout: 2 * time.Second}})
			if want := "has 3 ranks according to rank 1 and 2 according to rank 0"; !contains(err, want) {
				t.Errorf("rank %d: %v, want %q in it", rank, err, want)
			}
		})
	}
	check(t, w.Run())
}
