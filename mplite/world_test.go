package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeds = seedtest.Flags("mplite", 4).Each

var bg = context.Background()

// testJob is a simulated segment with one station, NIC and process for each rank.
type testJob struct {
	*sim.World
	cfg      mplite.Config
	size     int
	stations []*sim.Station
	errs     []error
	through  int // ranks that stay
}

func newJob(size int, opts sim.Options, cfg mplite.Config) *testJob {
	cfg.Job, cfg.Size = "test", size
	return &testJob{World: sim.New(opts), cfg: cfg, size: size}
}

// start adds the processes: each opens a NIC, joins the job, runs fn, and
// finalizes if fn returns nil.
func (j *testJob) start(fn func(c *mplite.Comm) error) {
	for rank := range j.size {
		j.host(fmt.Sprintf("rank %d", rank), func(nic *vipl.NIC) error { return j.rank(nic, rank, fn) })
	}
}

// host adds a process that runs fn with a NIC of its own.
func (j *testJob) host(name string, fn func(nic *vipl.NIC) error) {
	j.hostOn(j.Station(name), name, fn)
}

// hostOn is host at a station.
func (j *testJob) hostOn(station *sim.Station, name string, fn func(nic *vipl.NIC) error) {
	j.stations = append(j.stations, station)
	seed := uint64(len(j.stations))
	j.Go(name, func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: seed})
		if err == nil {
			err = fn(nic)
			nic.Close()
		}
		if err != nil {
			j.errs = append(j.errs, fmt.Errorf("%s at %v: %w", name, time.Duration(j.Now()-sim.Start), err))
		}
	})
}

func (j *testJob) rank(nic *vipl.NIC, rank int, fn func(c *mplite.Comm) error) error {
	cfg := j.cfg
	cfg.NIC, cfg.Rank = nic, rank
	c, err := mplite.Init(bg, &cfg)
	if err != nil {
		return err
	}
	if err := fn(c); err != nil {
		return err
	}
	return c.Finalize(bg)
}

// patience is the longest, in virtual time, that a rank waits for others.
const patience = 20 * time.Second

// computes lets time pass for a rank until done: its NIC works, but the rank does
// not look at what that brings.
func (j *testJob) computes(c *mplite.Comm, done func() bool) error {
	for end := j.Now() + int64(patience); !done(); c.NIC().Poll() {
		if j.Now() > end {
			return errors.New("what it waits for does not happen")
		}
		if err := j.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// computesFor is computes for a time.
func (j *testJob) computesFor(c *mplite.Comm, d time.Duration) error {
	end := j.Now() + int64(d)
	return j.computes(c, func() bool { return j.Now() >= end })
}

// stays keeps a rank among the living until n ranks have come here: who leaves
// without Finalize is dead to the others. A rank that does not come says why
// itself.
func (j *testJob) stays(c *mplite.Comm, n int) {
	j.through++
	j.computes(c, func() bool {
		c.Iprobe(c.Rank(), 0)
		return j.through >= n
	})
}

func (j *testJob) run() error {
	err := j.Run()
	return errors.Join(append(j.errs, err)...)
}

// runKilled is run for jobs whose ranks end with errKilled.
func (j *testJob) runKilled() error {
	left := []error{j.Run()}
	for _, err := range j.errs {
		if !errors.Is(err, errKilled) {
			left = append(left, err)
		}
	}
	return errors.Join(left...)
}

// runJob runs fn on every rank of a job and returns what went wrong anywhere.
func runJob(size int, opts sim.Options, cfg mplite.Config, fn func(c *mplite.Comm) error) error {
	j := newJob(size, opts, cfg)
	j.start(fn)
	return j.run()
}

// runOf returns a name for a job on a real network, on which the same test may run in
// another process at the same time.
func runOf(t testing.TB) string { return fmt.Sprintf("%s/%d", t.Name(), os.Getpid()) }

// content returns n bytes that differ from message to message.
func content(n int, id uint64) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(id, 7))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// same returns an error unless got is what content gives.
func same(got []byte, id uint64) error {
	if !bytes.Equal(got, content(len(got), id)) {
		return fmt.Errorf("message %d of %d bytes is damaged", id, len(got))
	}
	return nil
}

// TestManyRanks: a large job comes together, works and ends.
func TestManyRanks(t *testing.T) {
	size := 64
	if !need.Full() {
		size = 24
	}
	j := newJob(size, sim.Options{}, mplite.Config{EagerSize: 256, Credits: 4})
	j.start(func(c *mplite.Comm) error {
		if took := time.Duration(j.Now() - sim.Start); took > time.Second {
			return fmt.Errorf("Init took %v", took)
		}
		sum := []int{c.Rank()}
		if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
			return err
		}
		if want := size * (size - 1) / 2; sum[0] != want {
			return fmt.Errorf("the ranks add up to %d, want %d", sum[0], want)
		}
		return nil
	})
	check(t, j.run())
}
