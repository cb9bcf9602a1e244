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
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// errKilled ends a rank without Finalize.
var errKilled = errors.New("killed")

const victim = 2

// killedJob runs a job of five ranks. The victim joins the job and calls before, and then its
// station vanishes. The other ranks run fn.
func killedJob(seed uint64, before, fn func(c *mplite.Comm) error) error {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(5, sim.Options{Seed: seed}, cfg)
	j.start(func(c *mplite.Comm) error {
		if before != nil {
			if err := before(c); err != nil {
				return err
			}
		}
		if c.Rank() == victim {
			if err := j.Sleep(20 * time.Millisecond); err != nil { // what it has sent arrives
				return err
			}
			j.Kill(j.stations[victim])
			return errKilled
		}
		began := j.Now()
		if err := fn(c); err != nil {
			return err
		}
		if took := time.Duration(j.Now() - began); took > 10*time.Second {
			return fmt.Errorf("it took %v of virtual time to end", took)
		}
		j.stays(c, 4)
		return errKilled // no call of Finalize, because its barrier must fail
	})
	return j.runKilled()
}

// blames returns an error unless err says that the victim failed.
func blames(what string, err error) error {
	var re *mplite.RankError
	if !errors.As(err, &re) || !errors.Is(err, mplite.ErrRankFailed) || re.Rank != victim {
		return fmt.Errorf("%s ended with %v, want a RankError of rank %d", what, err, victim)
	}
	return nil
}

func TestDeadRankEndsPointToPoint(t *testing.T) {
	big := make([]byte, 100_000)
	for what, op := range map[string]func(c *mplite.Comm) error{
		"receive":           func(c *mplite.Comm) error { _, err := c.Recv(bg, big, victim, 1); return err },
		"wildcard receive":  func(c *mplite.Comm) error { _, err := c.Recv(bg, big, mplite.AnySource, 1); return err },
		"probe":             func(c *mplite.Comm) error { _, err := c.Probe(bg, victim, 1); return err },
		"synchronous send":  func(c *mplite.Comm) error { return c.Ssend(bg, big[:10], victim, 1) },
		"rendezvous":        func(c *mplite.Comm) error { return c.Send(bg, big, victim, 1) },
		"sendrecv":          func(c *mplite.Comm) error { _, err := c.Sendrecv(bg, big, victim, 1, big[:0], victim, 1); return err },
		"many small sends":  func(c *mplite.Comm) error { return sendUntilError(c, victim) },
		"pending requests":  pendingRequests,
		"and then a second": func(c *mplite.Comm) error { c.Ssend(bg, nil, victim, 1); return c.Send(bg, nil, victim, 1) },
	} {
		if err := killedJob(1, nil, func(c *mplite.Comm) error { return blames(what, op(c)) }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func sendUntilError(c *mplite.Comm, dst int) error {
	for range 1000 {
		if err := c.Send(bg, make([]byte, 500), dst, 1); err != nil {
			return err
		}
	}
	return nil
}

func pendingRequests(c *mplite.Comm) error {
	var reqs []mplite.Request
	for tag := range 20 {
		r, err := c.Irecv(make([]byte, 10), victim, tag)
		if err != nil {
			return err
		}
		s, err := c.Isend(make([]byte, 1500*(tag%2)), victim, tag)
		if err != nil {
			return err
		}
		reqs = append(reqs, r, s)
	}
	return mplite.Waitall(bg, reqs, nil)
}

// TestDeadRankEndsCollectives: some ranks wait for other ranks, which wait for the victim. All must
// learn of the death.
func TestDeadRankEndsCollectives(t *testing.T) {
	seeds(t, 4, func(seed uint64) error {
		for _, check := range checks {
			err := killedJob(seed, nil, func(c *mplite.Comm) error {
				var err error
				for range 3 { // a rank may complete the first collective before it learns of the death
					if err = check.run(c, 3000); err != nil {
						break
					}
				}
				return blames(check.name, err)
			})
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", check.name, seed, err)
			}
		}
		return nil
	})
}

// TestTheLivingGoOn: after a death, messages between the other ranks and collectives on
// communicators without the victim work.
func TestTheLivingGoOn(t *testing.T) {
	subs := map[int]*mplite.Comm{}
	err := killedJob(1, func(c *mplite.Comm) error {
		color := 0
		if c.Rank() == victim {
			color = 1
		}
		sub, err := c.Split(bg, color, 0)
		subs[c.Rank()] = sub
		return err
	}, func(c *mplite.Comm) error {
		if err := blames("barrier", c.Barrier(bg)); err != nil {
			return err
		}
		if err := blames("second barrier", c.Barrier(bg)); err != nil {
			return err
		}
		if got := c.Snapshot().RanksFailed; got != 1 {
			return fmt.Errorf("%d ranks failed, want 1", got)
		}
		next, prev := map[int]int{0: 1, 1: 3, 3: 4, 4: 0}, map[int]int{1: 0, 3: 1, 4: 3, 0: 4}
		for _, n := range sizes {
			in := make([]byte, n)
			if _, err := c.Sendrecv(bg, content(n, 1), next[c.Rank()], 9, in, prev[c.Rank()], 9); err != nil {
				return fmt.Errorf("among the living: %w", err)
			}
			if err := same(in, 1); err != nil {
				return err
			}
		}
		for _, check := range checks {
			if err := check.run(subs[c.Rank()], 3000); err != nil {
				return fmt.Errorf("%s without the victim: %w", check.name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCutBetweenTwo: if only two ranks cannot reach each other, a collective ends for all ranks,
// also for those that reach both.
func TestCutBetweenTwo(t *testing.T) {
	cfg := small
	cfg.PeerTimeout = time.Second
	j := newJob(4, sim.Options{}, cfg)
	j.start(func(c *mplite.Comm) error {
		if err := c.Barrier(bg); err != nil {
			return err
		}
		if c.Rank() == 0 {
			j.Partition(j.stations[0], j.stations[1], true)
		}
		err := c.Barrier(bg)
		for err == nil { // until the rank has noticed the cut
			err = c.Barrier(bg)
		}
		var re *mplite.RankError
		if !errors.As(err, &re) || re.Rank > 1 {
			t.Errorf("rank %d: barrier ended with %v, want a RankError of rank 0 or 1", c.Rank(), err)
		}
		if now := time.Duration(j.Now() - sim.Start); now > 5*time.Second {
			t.Errorf("rank %d noticed at %v", c.Rank(), now)
		}
		if c.Rank() < 2 { // wait until the others have learned of the cut and left
			if _, err := c.Recv(bg, nil, 3, 9); err == nil {
				t.Errorf("rank %d received from rank 3, which sends nothing", c.Rank())
			}
		}
		return errKilled
	})
	check(t, j.Run())
}

// TestExitWithoutFinalize: a rank that closes its NIC without Finalize counts as dead immediately,
// not after the peer timeout.
func TestExitWithoutFinalize(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		if c.Rank() == victim {
			return errKilled
		}
		began := j.Now()
		if err := blames("receive", func() error { _, err := c.Recv(bg, nil, victim, 0); return err }()); err != nil {
			t.Error(err)
		}
		if took := time.Duration(j.Now() - began); took > 100*time.Millisecond {
			t.Errorf("rank %d noticed after %v", c.Rank(), took)
		}
		return errKilled
	})
	if err := j.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestAbort: one rank's Abort ends the operations of all other ranks, which learn the exit code.
// The aborting process ends with an exit code other than 0, also for codes such as 0 and 256.
func TestAbort(t *testing.T) {
	for code, exits := range map[int]int{7: 7, 0: 1, 256: 1, -1: 255} {
		cfg := small
		cfg.Exit = func(got int) {
			if got != exits {
				t.Errorf("Abort(%d) ends the process with %d, want %d", code, got, exits)
			}
		}
		j := newJob(4, sim.Options{}, cfg)
		j.start(func(c *mplite.Comm) error {
			if c.Rank() == victim {
				c.Abort(code)
				return errKilled
			}
			err := c.Barrier(bg)
			var ae *mplite.AbortError
			if !errors.As(err, &ae) || !errors.Is(err, mplite.ErrAborted) || ae.Rank != victim || ae.Code != code {
				t.Errorf("rank %d: barrier ended with %v, want an AbortError of rank %d with code %d", c.Rank(), err, victim, code)
			}
			return errKilled
		})
		if err := j.Run(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMissingRank: the error of Init names the ranks that do not join.
func TestMissingRank(t *testing.T) {
	w := sim.New(sim.Options{})
	for rank := range 3 {
		if rank == 0 {
			continue
		}
		station := w.Station(fmt.Sprint("rank ", rank))
		w.Go(station.String(), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station, Seed: 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			_, err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "j", Rank: rank, Size: 3, NIC: nic, Timeout: 2 * time.Second}})
			if want := `rank 0 of job "j" did not appear within 2s`; !errors.Is(err, mplite.ErrInit) || !contains(err, want) {
				t.Errorf("rank %d: %v, want %q in it", rank, err, want)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// Tests of the consequences of a death: ranks that leave because of it, and messages of dead ranks.

// TestLeftBecauseOfADeath: a rank has learned that another rank is dead, and calls Finalize, which
// fails. A rank that waits for it gets an error that names the dead rank.
func TestLeftBecauseOfADeath(t *testing.T) {
	left := false
	cfg := small
	cfg.Timeout = 3 * time.Second // longer than the detection of the death takes
	check(t, lateJob(cfg, func(j *testJob, c *mplite.Comm) error {
		switch c.Rank() {
		case 1:
			err := c.Finalize(bg)
			left = true
			return blames("finalize", err)
		case 0:
			if err := j.computes(c, func() bool { return left }); err != nil {
				return err
			}
			_, err := c.Recv(bg, nil, 1, 0)
			if err := blames("receive from a rank that has left", err); err != nil {
				return err
			}
			if want := "rank 1 left because of this"; !contains(err, want) {
				return fmt.Errorf("receive: %w, want %q in it", err, want)
			}
		}
		return nil
	}))
}

// TestAnnouncedBeforeDeath: a rank sends messages and dies. Complete messages can still be
// received. Messages that it has only announced are discarded.
func TestAnnouncedBeforeDeath(t *testing.T) {
	const whole, announced, last = 7, 8, 9
	before := func(c *mplite.Comm) error {
		switch c.Rank() {
		case victim:
			if _, err := c.Isend(make([]byte, 50_000), 0, announced); err != nil {
				return err
			}
			if err := c.Send(bg, content(10, 1), 0, whole); err != nil {
				return err
			}
			if err := c.Send(bg, nil, 0, last); err != nil {
				return err
			}
			_, err := c.Recv(bg, nil, 0, 0) // it has come
			return err
		case 0:
			if _, err := c.Recv(bg, nil, victim, last); err != nil {
				return err
			}
			if _, found, err := c.Iprobe(victim, announced); !found || err != nil {
				return fmt.Errorf("the announcement has not come: %w", err)
			}
			return c.Send(bg, nil, victim, 0)
		}
		return nil
	}
	check(t, killedJob(1, before, func(c *mplite.Comm) error {
		if c.Rank() != 0 {
			return nil
		}
		_, err := c.Recv(bg, nil, victim, last)
		if err := blames("receive", err); err != nil {
			return err
		}
		_, found, err := c.Iprobe(victim, announced)
		if found {
			return errors.New("an announcement of the dead is still there")
		}
		if err := blames("probe", err); err != nil {
			return err
		}
		buf := make([]byte, 10)
		if _, err := c.Recv(bg, buf, victim, whole); err != nil {
			return fmt.Errorf("a whole message of the dead: %w", err)
		}
		return same(buf, 1)
	}))
}

// TestInterfaceGone: after the deletion of its interface, a rank does not wait for a message that
// cannot arrive. Ranks in Init do not wait for each other either.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nics [2]*vipl.NIC
	for side := range nics {
		err := p.In(side, func() (err error) {
			nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer nics[side].Close()
	}
	var ranks [2]*mplite.Comm
	both(t, func(rank int) (err error) {
		ranks[rank], err = mplite.Init(bg, &mplite.Config{Config: job.Config{Job: t.Name(), Rank: rank, Size: 2, NIC: nics[rank]}})
		return err
	})
	ended := make(chan error)
	for rank := range ranks {
		go func() {
			_, err := ranks[rank].Recv(bg, make([]byte, 1), 1-rank, 0)
			ended <- err
		}()
	}
	go func() {
		_, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: "other", Rank: 0, Size: 2, NIC: nics[0]}})
		ended <- err
	}()
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}

// gaveUp returns an error unless err says that the rank failed and contains words.
func gaveUp(err error, rank int, words string) error {
	var failed *mplite.RankError
	if !errors.As(err, &failed) || failed.Rank != rank || !contains(err, words) {
		return fmt.Errorf("%w, want that rank %d failed because of %q", err, rank, words)
	}
	return nil
}

// TestReasonIsTold: a rank whose Init fails before it is connected with any other rank tells all
// others the reason, both those that wait already and those that join a little later.
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

// TestReasonIsToldInTime: over a real network, a rank is connected with one rank, waits for another
// one, and gives up. The connected rank learns the reason.
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
				// Rank 1 may give up before it has received rank 0's message. Then it also misses
				// rank 0.
				if err := gaveUp(err, 1, "it gave up: init: not all ranks joined: context canceled before rank"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ranks.Wait()
}

// saysHello reports whether a rank is connected with another rank and has sent a message to it.
func saysHello(nic *vipl.NIC) bool {
	return slices.ContainsFunc(nic.Snapshot().VIs, func(v vipl.VISnapshot) bool {
		return v.State == vipl.StateConnected && v.Sends > 0
	})
}

// TestTimeIsToldWithRefusals: the rank whose time limit ends first tells all others which rank is
// missing, and which requests were refused.
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

// TestSaysWhomItAwaits: after three seconds Init logs once for which ranks it waits and why. It
// uses the configured logger, or the default logger, which writes to stderr.
func TestSaysWhomItAwaits(t *testing.T) {
	for rank, why := range map[int]string{0: "no connection request has arrived", 1: "no reply on the segment for rank 0"} {
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

// stderrOf returns the text that is written to stderr while fn runs.
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
