package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

var seeds = seedtest.Flags("job", 4).Each

var bg = context.Background()

// world is a simulated segment with one station, NIC and process for each rank.
type world struct {
	*sim.World
	cfg      job.Config
	stations []*sim.Station
	errs     []error
}

func newWorld(size int, opts sim.Options) *world {
	return &world{World: sim.New(opts), cfg: job.Config{Job: "test", Size: size, Timeout: 20 * time.Second, PeerTimeout: 300 * time.Millisecond}}
}

// host adds a process that runs fn with a NIC of its own, after a while.
func (w *world) host(name string, after time.Duration, fn func(nic *vipl.NIC) error) {
	station := w.Station(name)
	w.stations = append(w.stations, station)
	seed := uint64(len(w.stations))
	w.Go(name, func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: seed})
		if err == nil {
			if err = w.Sleep(after); err == nil {
				err = fn(nic)
			}
			nic.Close()
		}
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s at %v: %w", name, w.now(), err))
		}
	})
}

func (w *world) now() time.Duration { return time.Duration(w.Now() - sim.Start) }

// join has a rank join, with Params that tell the rank.
func (w *world) join(ctx context.Context, nic *vipl.NIC, rank int) (*job.Member, error) {
	cfg := w.cfg
	cfg.NIC, cfg.Rank = nic, rank
	return job.Open(ctx, &cfg, job.Program{Name: "Test", Version: 2, Params: [2]uint32{uint32(rank), 7}})
}

// fails adds a rank that starts after a while, and whose Join or Leave ends, soon,
// as want has it.
func (w *world) fails(name string, rank int, after time.Duration, want func(error) error) {
	w.host(name, after, func(nic *vipl.NIC) error {
		m, err := w.join(bg, nic, rank)
		if err == nil { // some ranks may have met before the failure is known
			err = m.Leave(bg)
		}
		err = want(err)
		if took := w.now() - after; err == nil && took > 3*time.Second {
			return fmt.Errorf("%s ended after %v", name, took)
		}
		return err
	})
}

func (w *world) run() error {
	err := w.Run()
	return errors.Join(append(w.errs, err)...)
}

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isTwice returns an error unless err says that two processes claim a rank, and
// where they are.
func isTwice(err error, rank int) error {
	var twice *job.DuplicateError
	if !errors.As(err, &twice) || !errors.Is(err, job.ErrInit) || twice.Rank != rank || twice.Job != "test" ||
		twice.First == twice.Second || twice.First.IsZero() || twice.Second.IsZero() {
		return fmt.Errorf("%w, want that rank %d is there twice, and where", err, rank)
	}
	return nil
}

// hasFailed returns an error unless err says that a rank failed, in words.
func hasFailed(err error, rank int, words string) error {
	var failed *job.RankError
	if !errors.As(err, &failed) || failed.Rank != rank || !contains(err, words) {
		return fmt.Errorf("%w, want that rank %d failed because of %q", err, rank, words)
	}
	return nil
}
