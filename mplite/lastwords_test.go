package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// gaveUp returns an error unless err says that a rank failed, and its words.
func gaveUp(err error, rank int, words string) error {
	var failed *mplite.RankError
	if !errors.As(err, &failed) || failed.Rank != rank || !contains(err, words) {
		return fmt.Errorf("%w, want that rank %d failed because of %q", err, rank, words)
	}
	return nil
}

// TestReasonIsTold: a rank that ends Init for a reason of its own, before it is
// connected with anybody, tells it to all others, whether they are there already
// or come a little later.
func TestReasonIsTold(t *testing.T) {
	const size = 4
	for leaver := 1; leaver < size; leaver++ {
		for _, late := range []time.Duration{0, 150 * time.Millisecond} {
			j := newJob(size, sim.Options{}, small)
			for rank := range size {
				if rank == leaver {
					continue
				}
				after := time.Duration(0)
				if rank == size-1 {
					after = late
				}
				j.begins(fmt.Sprint("rank ", rank), rank, after, func(err error) error { return gaveUp(err, leaver, "context canceled") })
			}
			j.host("leaver", func(nic *vipl.NIC) error {
				cfg := j.cfg
				cfg.NIC, cfg.Rank = nic, leaver
				if _, err := mplite.Init(canceled(), &cfg); !errors.Is(err, context.Canceled) {
					return fmt.Errorf("init: %w", err)
				}
				return nil
			})
			check(t, j.run())
		}
	}
}

// TestReasonIsToldInTime: over a real network, a rank that is connected with one
// and waits for another gives up. The one that waits with it learns why.
func TestReasonIsToldInTime(t *testing.T) {
	var ranks sync.WaitGroup
	for rank := range 2 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(71 + rank), Driver: "udp"})
		check(t, err)
		t.Cleanup(func() { nic.Close() })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if rank == 1 {
			ranks.Go(func() {
				look := time.NewTicker(time.Millisecond)
				defer look.Stop()
				for !saysHello(nic) {
					select {
					case <-look.C:
					case <-ctx.Done():
						return
					}
				}
				cancel()
			})
		}
		ranks.Go(func() {
			defer cancel()
			_, err := mplite.Init(ctx, &mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: 3, NIC: nic, Timeout: patience}})
			if rank == 1 && !errors.Is(err, context.Canceled) {
				t.Errorf("rank 1: %v", err)
			}
			if rank == 0 {
				// Rank 1 may give up before it has taken in what rank 0 says, and then misses
				// that one, too.
				if err := gaveUp(err, 1, "it gave up: init: job did not come together: context canceled before rank"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ranks.Wait()
}

// saysHello reports whether a rank is connected with another one and talks with it.
func saysHello(nic *vipl.NIC) bool {
	return slices.ContainsFunc(nic.Snapshot().VIs, func(v vipl.VISnapshot) bool {
		return v.State == vipl.StateConnected && v.Sends > 0
	})
}

// TestTimeIsToldWithRefusals: the rank whose time is up first names the missing one,
// with what was refused, to all.
func TestTimeIsToldWithRefusals(t *testing.T) {
	const words = `has 4 ranks according to rank 2 and 3 according to rank 0`
	j := newJob(3, sim.Options{}, small)
	impatient := *j
	impatient.cfg.Timeout = 2 * time.Second
	impatient.begins("rank 0", 0, 0, func(err error) error {
		if !errors.Is(err, mplite.ErrInit) || !contains(err, words) {
			return fmt.Errorf("%w, want %q", err, words)
		}
		return nil
	})
	j.begins("rank 1", 1, 0, func(err error) error { return gaveUp(err, 2, words) })
	wrong := *j
	wrong.cfg.Size = 4
	wrong.begins("rank 2", 2, 0, func(err error) error {
		if !errors.Is(err, vipl.ErrReject) || !contains(err, words) {
			return fmt.Errorf("%w, want %q", err, words)
		}
		return nil
	})
	check(t, j.Run())
	for _, j := range []*testJob{j, &impatient, &wrong} {
		check(t, errors.Join(j.errs...))
	}
}

// TestSaysWhomItAwaits: after three seconds Init says once for whom it waits and
// why, by its logger or the default one, which writes to stderr.
func TestSaysWhomItAwaits(t *testing.T) {
	for rank, why := range map[int]string{0: "no request for a connection has come", 1: "nobody on the segment answers to the name of rank 0"} {
		var lines bytes.Buffer
		j := newJob(3, sim.Options{}, mplite.Config{Config: job.Config{Timeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&lines, nil))}})
		silent := stderrOf(t, func() {
			j.host("alone", func(nic *vipl.NIC) error { j.rank(nic, rank, nil); return nil })
			check(t, j.run())
		})
		if n := bytes.Count(lines.Bytes(), []byte("Init waits for other ranks")); n != 1 || !bytes.Contains(lines.Bytes(), []byte(why)) || silent != "" {
			t.Errorf("rank %d: logged %d times, want once with %q:\n%sand on stderr %q", rank, n, why, &lines, silent)
		}
		j = newJob(3, sim.Options{}, mplite.Config{Config: job.Config{Timeout: 10 * time.Second}})
		said := stderrOf(t, func() {
			j.host("alone", func(nic *vipl.NIC) error { j.rank(nic, rank, nil); return nil })
			check(t, j.run())
		})
		missing := map[int]string{0: "rank 1, 2", 1: "rank 0, 2"}[rank]
		if want := fmt.Sprintf(`WARN Init waits for other ranks job=test rank=%d missing=%q why=%q`, rank, missing, why); strings.Count(said, "\n") != 1 ||
			!strings.Contains(said, strings.TrimSuffix(want, `"`)) {
			t.Errorf("stderr has %q, want one line with %q", said, want)
		}
	}
}

// stderrOf returns what is written to stderr while fn runs.
func stderrOf(t *testing.T, fn func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	before := os.Stderr
	os.Stderr = w
	log.SetOutput(w)
	defer func() { os.Stderr = before; log.SetOutput(before) }()
	fn()
	w.Close()
	b, err := io.ReadAll(r)
	check(t, err)
	return string(b)
}
