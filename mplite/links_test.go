package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// vethNICs opens a NIC in each of two namespaces joined by veth.
func vethNICs(t testing.TB, mtu int) (nics [2]*vipl.NIC) { return driverNICs(t, mtu, "") }

// driverNICs opens them by a driver.
func driverNICs(t testing.TB, mtu int, driver string) (nics [2]*vipl.NIC) {
	t.Helper()
	p := vethtest.New(t, mtu)
	for side := range nics {
		err := p.In(side, func() (err error) {
			nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Driver: driver})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[side].Close() })
	}
	return nics
}

// vethJob joins two ranks of this process over veth; they are finalized when
// the test ends.
func vethJob(t testing.TB, mtu int, cfg mplite.Config) (ranks [2]*mplite.Comm) {
	t.Helper()
	return jobOn(t, vethNICs(t, mtu), cfg)
}

// jobOn joins two ranks of this process by their NICs.
func jobOn(t testing.TB, nics [2]*vipl.NIC, cfg mplite.Config) (ranks [2]*mplite.Comm) {
	t.Helper()
	both(t, func(rank int) error {
		c := cfg
		c.Job, c.Rank, c.Size, c.NIC = t.Name(), rank, 2, nics[rank]
		var err error
		ranks[rank], err = mplite.Init(bg, &c)
		return err
	})
	t.Cleanup(func() { both(t, func(rank int) error { return ranks[rank].Finalize(bg) }) })
	return ranks
}

// both runs f as both ranks at the same time.
func both(t testing.TB, f func(rank int) error) {
	t.Helper()
	var wg sync.WaitGroup
	var errs [2]error
	for rank := range errs {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
}

// TestOverVeth runs everything once over real frames.
func TestOverVeth(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		everything(t, mtu, vethJob(t, mtu, mplite.Config{}))
	}
}

// TestOverCard runs everything once over the card of an emulated Myrinet.
func TestOverCard(t *testing.T) {
	everything(t, 9000, jobOn(t, driverNICs(t, 9000, "myrinet"), mplite.Config{}))
}

func everything(t *testing.T, mtu int, ranks [2]*mplite.Comm) {
	t.Helper()
	both(t, func(rank int) error {
		for _, check := range checks {
			for _, n := range []int{1, 3000, 200_000} {
				if err := check.run(ranks[rank], n); err != nil {
					return fmt.Errorf("MTU %d: %s of %d: %w", mtu, check.name, n, err)
				}
			}
		}
		return nil
	})
}

// TestManyGoroutines: each of several goroutines of a rank talks with one of
// the other rank, all over one connection.
func TestManyGoroutines(t *testing.T) {
	ranks := vethJob(t, 1500, mplite.Config{})
	both(t, func(rank int) error {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for tag := range errs {
			wg.Go(func() { errs[tag] = volley(ranks[rank], tag) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func volley(c *mplite.Comm, tag int) error {
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	peer := 1 - c.Rank()
	for i := range 100 {
		n := i * 37 % 12_000
		in := make([]byte, n)
		if _, err := c.Sendrecv(ctx, content(n, uint64(tag)), peer, tag, in, peer, tag); err != nil {
			return fmt.Errorf("goroutine %d, round %d: %w", tag, i, err)
		}
		if err := same(in, uint64(tag)); err != nil {
			return err
		}
		if tag%2 == 0 { // and within the rank
			r, err := c.Irecv(in, c.Rank(), tag)
			if err != nil {
				return err
			}
			if err := c.Ssend(ctx, in, c.Rank(), tag); err != nil {
				return err
			}
			if _, err := r.Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestInitTimesOut: over real time, the one rank that is there names the other.
func TestInitTimesOut(t *testing.T) {
	nics := vethNICs(t, 1500)
	for rank, nic := range nics {
		_, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "lonely", Rank: rank, Size: 2, NIC: nic, Timeout: 100 * time.Millisecond}})
		if want := fmt.Sprintf("rank %d of job", 1-rank); !errors.Is(err, mplite.ErrInit) || !contains(err, want) {
			t.Errorf("rank %d: %v, want %q in it", rank, err, want)
		}
	}
}

// TestContextEndsAReceive: over a real connection, while the rank sleeps on it.
func TestContextEndsAReceive(t *testing.T) {
	ranks := vethJob(t, 1500, mplite.Config{})
	ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
	defer cancel()
	if _, err := ranks[0].Recv(ctx, nil, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("receive: %v", err)
	}
	if err := ranks[0].Send(ctx, make([]byte, 100_000), 1, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
	// The receiver has been told of a message that was then withdrawn.
	both(t, func(rank int) error {
		if rank == 1 {
			if _, err := ranks[1].Recv(bg, make([]byte, 100_000), 0, 0); !errors.Is(err, mplite.ErrCanceled) {
				return fmt.Errorf("receive of a withdrawn message: %w", err)
			}
		}
		return ranks[rank].Barrier(bg)
	})
}

func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{64, 8 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ranks := vethJob(b, 9000, mplite.Config{})
			b.ReportAllocs()
			b.ResetTimer()
			both(b, func(rank int) error {
				buf := make([]byte, size)
				step := pingPong(size)
				for range b.N {
					if err := step(ranks[rank], buf, nil); err != nil {
						return err
					}
				}
				return nil
			})
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
		})
	}
}

// BenchmarkStream sends messages one way, a window of requests at a time.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{64, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ranks := vethJob(b, 9000, mplite.Config{})
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			both(b, func(rank int) error { return stream(ranks[rank], size, b.N) })
		})
	}
}

func stream(c *mplite.Comm, size, n int) error {
	reqs := make([]mplite.Request, 64)
	bufs := make([][]byte, len(reqs))
	for i := range bufs {
		bufs[i] = make([]byte, size)
	}
	for i := range n + len(reqs) {
		slot := i % len(reqs)
		if !reqs[slot].Null() {
			if _, err := reqs[slot].Wait(bg); err != nil {
				return err
			}
			reqs[slot] = mplite.Request{}
		}
		if i >= n {
			continue
		}
		var err error
		if c.Rank() == 0 {
			reqs[slot], err = c.Isend(bufs[slot], 1, 0)
		} else {
			reqs[slot], err = c.Irecv(bufs[slot], 0, 0)
		}
		if err != nil {
			return err
		}
	}
	runtime.KeepAlive(bufs)
	return c.Barrier(bg)
}

// TestUDP reduces vectors over three ranks on the loopback, which takes no
// privilege.
func TestUDP(t *testing.T) {
	const size = 3
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() { errs[rank] = udpRank(t, rank, size) })
	}
	ranks.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func udpRank(t *testing.T, rank, size int) error {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(41 + rank), Driver: "udp"})
	if err != nil {
		return err
	}
	defer nic.Close()
	c, err := mplite.Init(t.Context(), &mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: size, NIC: nic}})
	if err != nil {
		return err
	}
	for _, n := range []int{1, 1000, 200_000} {
		send, recv := make([]int64, n), make([]int64, n)
		for i := range send {
			send[i] = int64(i * (rank + 1))
		}
		if err := mplite.Allreduce(t.Context(), c, send, recv, mplite.Sum[int64]()); err != nil {
			return err
		}
		for i, got := range recv {
			if want := int64(i * size * (size + 1) / 2); got != want {
				return fmt.Errorf("of %d elements, element %d is %d, want %d", n, i, got, want)
			}
		}
	}
	return c.Finalize(t.Context())
}

// TestRanksOnOneHost: four ranks on one interface of one host find each other,
// and run everything, through shared memory.
func TestRanksOnOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	const size = 4
	var ranks sync.WaitGroup
	errs := make([]error, size)
	for rank := range size {
		var nic *vipl.NIC
		if err := p.In(0, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		ranks.Go(func() {
			errs[rank] = hostRank(&mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: size, NIC: nic}})
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func hostRank(cfg *mplite.Config) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	for _, check := range checks {
		for _, n := range []int{1, 3000, 200_000} {
			if err := check.run(c, n); err != nil {
				return fmt.Errorf("%s of %d: %w", check.name, n, err)
			}
		}
	}
	return c.Finalize(bg)
}
