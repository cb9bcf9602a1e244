package mplite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	jobs "github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInitEndsWithContext: a rank that looks for a lower one, and one that
// waits for a higher one, stop when their context does.
func TestInitEndsWithContext(t *testing.T) {
	for rank := range 2 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(51 + rank), Driver: "udp"})
		check(t, err)
		defer nic.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(20*time.Millisecond, cancel).Stop()
		began := time.Now()
		_, err = mplite.Init(ctx, &mplite.Config{Config: jobs.Config{Job: runOf(t), Rank: rank, Size: 2, NIC: nic, Timeout: patience}})
		want := fmt.Sprintf(`before rank %d of job "%s" had connected`, 1-rank, runOf(t))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, mplite.ErrInit) || !contains(err, want) {
			t.Errorf("rank %d: %v, want that it was cancelled and %q", rank, err, want)
		}
		if time.Since(began) >= patience {
			t.Errorf("rank %d: only Timeout ended Init", rank)
		}
	}
}

// TestInitWithEndedContext: a rank whose context has ended, and which has no NIC yet, tells the other
// rank why it does not come. The other rank does not wait until its time is up.
func TestInitWithEndedContext(t *testing.T) {
	t.Setenv("BOBNET_DRIVER", "udp")
	for rank := range 2 {
		name := fmt.Sprint(runOf(t), rank)
		cfg := func(rank int) *mplite.Config {
			return &mplite.Config{Config: jobs.Config{Job: name, Rank: rank, Size: 2, Interface: vethtest.Loopback(55 + rank), Timeout: 10 * patience}}
		}
		other := make(chan error, 1)
		go func() {
			c, err := mplite.Init(t.Context(), cfg(1-rank))
			if err == nil { // both are there, and then one says that it goes
				err = c.Barrier(t.Context())
				c.Close()
			}
			other <- err
		}()
		nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(57)})
		check(t, err)
		_, err = nic.Lookup(t.Context(), fmt.Sprintf("job/%s/%d", name, 1-rank)) // it has begun to wait
		check(t, errors.Join(err, nic.Close()))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := mplite.Init(ended, cfg(rank)); !errors.Is(err, context.Canceled) || !errors.Is(err, mplite.ErrInit) {
			t.Errorf("rank %d: %v, want that it was cancelled", rank, err)
		}
		var failed *mplite.RankError
		if err := <-other; !errors.As(err, &failed) || failed.Rank != rank || !contains(err, context.Canceled.Error()) {
			t.Errorf("rank %d: %v, want what rank %d has said", 1-rank, err, rank)
		}
	}
}

// TestManyMissing: with many ranks missing, Init's time is up little later than
// with one, and a few are named.
func TestManyMissing(t *testing.T) {
	const limit = 2 * time.Second
	for rank, named := range map[int]string{0: "rank 1, 2, 3, 4 of", 100: "rank 0, 1, 2, 3 of"} {
		j := newJob(200, sim.Options{}, mplite.Config{Config: jobs.Config{Timeout: limit}})
		j.host("alone", func(nic *vipl.NIC) error {
			err := j.rank(nic, rank, nil)
			if took := time.Duration(j.Now() - sim.Start); took > limit+limit/4 {
				return fmt.Errorf("Init took %v, want %v", took, limit)
			}
			if !errors.Is(err, mplite.ErrInit) || !contains(err, named+` job "test" did not appear within 2s`) || !contains(err, "195 more have not connected") {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			for _, once := range []string{"init: ", "bobnet doctor"} {
				if n := strings.Count(err.Error(), once); n != 1 {
					return fmt.Errorf("%q is there %d times: %w", once, n, err)
				}
			}
			return nil
		})
		check(t, j.run())
	}
}

// TestTwoJobs: jobs on one segment whose names differ do not notice each other.
func TestTwoJobs(t *testing.T) {
	const size = 3
	w := sim.New(sim.Options{})
	var jobs []*testJob
	ended := 0
	for _, name := range []string{"job", "job/1"} {
		j := newJob(size, sim.Options{}, small)
		j.World, j.cfg.Job = w, name
		for rank := range size {
			j.host(fmt.Sprint(name, " rank ", rank), func(nic *vipl.NIC) error {
				return j.rank(nic, rank, func(c *mplite.Comm) error {
					ended++
					return sumOfJob(c, name)
				})
			})
		}
		jobs = append(jobs, j)
	}
	check(t, w.Run())
	for _, j := range jobs {
		check(t, errors.Join(j.errs...))
	}
	if ended != 2*size {
		t.Errorf("%d ranks have met, want %d", ended, 2*size)
	}
}

// sumOfJob adds up a number that all ranks of a job know, and no rank of another.
func sumOfJob(c *mplite.Comm, name string) error {
	sum := []int{len(name)}
	if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
		return err
	}
	if want := len(name) * c.Size(); sum[0] != want {
		return fmt.Errorf("the ranks add up to %d, want %d", sum[0], want)
	}
	return nil
}

// TestStrangers: who asks a rank for a connection and does not belong to the
// job, or has another VI than its ranks have, is refused in words and counted, and
// the job comes together all the same.
func TestStrangers(t *testing.T) {
	otherVersion := mplite.Hello("test", 1, 2)
	otherVersion[0]++
	strangers := []struct {
		hello []byte
		words string
		attr  vipl.Attributes
	}{
		{hello: mplite.Hello("another", 1, 2), words: `that of job "test"`},
		{hello: otherVersion, words: "build all ranks from one source"},
		{hello: nil, words: "MPLite wire version 0"},
		{hello: mplite.Hello("test", 1, 3), words: "has 3 ranks according to rank 1 and 2 according to rank 0"},
		{hello: mplite.Hello("test", 2, 2), words: "rank 2 of 2 asks rank 0"},
		{hello: mplite.Hello("test", 0, 2), words: `rank 0 of job "test" already exists`},
		{hello: mplite.Hello("test", 1, 2), words: "qualities of service do not match", attr: vipl.Attributes{QoS: 1}},
		{hello: mplite.Hello("test", 1, 2), words: "maximum transfer sizes", attr: vipl.Attributes{MaxTransferSize: 4096}},
		{hello: mplite.Hello("test", 1, 2), words: "reliability levels", attr: vipl.Attributes{Reliability: reliability.ReliableReception}},
	}
	j := newJob(2, sim.Options{}, small)
	meet := func(c *mplite.Comm) error {
		if got := c.Snapshot().Refused; c.Rank() == 0 && got != uint64(len(strangers)) {
			return fmt.Errorf("%d requests were refused, want %d", got, len(strangers))
		}
		return c.Barrier(bg)
	}
	j.host("rank 0", func(nic *vipl.NIC) error { return j.rank(nic, 0, meet) })
	j.host("rank 1", func(nic *vipl.NIC) error {
		addr, err := nic.Lookup(bg, "job/test/0")
		if err != nil {
			return err
		}
		for _, s := range strangers {
			vi, err := nic.CreateVI(&s.attr, nil, nil)
			if err != nil {
				return err
			}
			if err := vi.Connect(bg, addr, s.hello); !errors.Is(err, vipl.ErrReject) || !contains(err, s.words) {
				return fmt.Errorf("a stranger got %w, want a refusal with %q", err, s.words)
			}
			if err := vi.Close(); err != nil {
				return err
			}
		}
		return j.rank(nic, 1, meet)
	})
	check(t, j.run())
}

// TestEarlyEndOfInit: rank 2 does not come. Rank 0 waits for it to connect, rank 3
// asks for its address, and rank 1, which is connected with both, ends meanwhile.
// They learn it at once, and name who is to blame: rank 1 if it has died, and
// rank 2 if rank 1 leaves because it has no more time.
func TestEarlyEndOfInit(t *testing.T) {
	const mortal, missing, size = 1, 2, 4
	const end, peerTimeout = time.Second, 300 * time.Millisecond
	for _, tc := range []struct {
		name   string
		blamed int
		late   time.Duration
	}{
		{"closes", mortal, 0},
		{"is killed", mortal, peerTimeout},
		{"leaves", missing, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := small
			cfg.PeerTimeout, cfg.Timeout = peerTimeout, time.Minute
			j := newJob(size, sim.Options{}, cfg)
			patient := func(rank int) {
				j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
					err := j.rank(nic, rank, nil)
					var failed *mplite.RankError
					if !errors.As(err, &failed) || failed.Rank != tc.blamed {
						return fmt.Errorf("%w, want that rank %d failed", err, tc.blamed)
					}
					if took := time.Duration(j.Now() - sim.Start); took > end+tc.late+500*time.Millisecond {
						return fmt.Errorf("only after %v: %w", took, err)
					}
					return nil
				})
			}
			patient(0)
			j.host("mortal", func(nic *vipl.NIC) error {
				own := *j
				switch tc.name {
				case "leaves":
					own.cfg.Timeout = end
				case "closes":
					j.At(sim.Start+int64(end), func() { nic.Close() })
				default:
					j.At(sim.Start+int64(end), func() { j.Kill(j.stations[mortal]) })
				}
				if err := own.rank(nic, mortal, nil); err == nil {
					return errors.New("the job has come together without rank 2")
				}
				return nil
			})
			patient(3)
			check(t, j.run())
		})
	}
}

// TestInitFromEnvironment: no variables mean a job of one; bad ones are named.
func TestInitFromEnvironment(t *testing.T) {
	t.Setenv(jobs.EnvSize, "")
	c, err := mplite.Init(bg, nil)
	check(t, err)
	if c.Rank() != 0 || c.Size() != 1 {
		t.Errorf("%v", c)
	}
	t.Setenv(jobs.EnvSize, "many")
	if _, err := mplite.Init(bg, nil); !contains(err, `BOBNET_SIZE is "many"`) {
		t.Error(err)
	}
	t.Setenv(jobs.EnvSize, "2")
	t.Setenv(jobs.EnvRank, "2")
	t.Setenv(jobs.EnvJob, "j")
	if _, err := mplite.Init(bg, nil); !contains(err, "rank 2 is not in 0..1") {
		t.Error(err)
	}
}

// TestConfigFromEnvironment: what a Config leaves zero comes from the environment,
// what it gives does not.
func TestConfigFromEnvironment(t *testing.T) {
	t.Setenv(jobs.EnvJob, "")
	t.Setenv(jobs.EnvSize, "3")
	t.Setenv(jobs.EnvRank, "7")
	t.Setenv(vipl.EnvTimeout, "soon")
	for _, tc := range []struct {
		cfg  mplite.Config
		says string // empty: a job of one
	}{
		{mplite.Config{}, `mplite: init: read BOBNET_TIMEOUT: invalid parameter: invalid duration "soon"`},
		{mplite.Config{Config: jobs.Config{Timeout: 1}}, "rank 7 is not in 0..2"},
		{mplite.Config{Config: jobs.Config{Timeout: 1, Rank: 5}}, "rank 5 is not in 0..2"},
		{mplite.Config{Config: jobs.Config{Timeout: 1, Rank: 2}}, "needs a name"},
		{mplite.Config{Config: jobs.Config{Timeout: 1, Size: 2}}, "needs a name"},
		{mplite.Config{Config: jobs.Config{Timeout: 1, Size: 1}}, ""},
	} {
		c, err := mplite.Init(bg, &tc.cfg)
		if err != nil && !errors.Is(err, mplite.ErrArgument) {
			t.Errorf("%+v: %v, want an ErrArgument", tc.cfg, err)
		}
		if tc.says != "" && !contains(err, tc.says) || tc.says == "" && (err != nil || c.Size() != 1) {
			t.Errorf("%+v: %v, %v, want %q", tc.cfg, c, err, tc.says)
		}
	}
	t.Setenv(jobs.EnvJob, strings.Repeat("j", 200))
	if _, err := mplite.Init(bg, &mplite.Config{Config: jobs.Config{Timeout: 1, Size: 2}}); !contains(err, "name has 200 bytes") {
		t.Errorf("the job's name was not read: %v", err)
	}
}

// envAlone makes the test binary a program that TestSaysAlone looks at.
const envAlone = "MPLITE_TEST_ALONE"

// TestSaysAlone: a process that nothing tells which job it belongs to says once
// that it is one by itself; not if its program or its environment gives a size.
func TestSaysAlone(t *testing.T) {
	if how := os.Getenv(envAlone); how != "" {
		for range 3 {
			var cfg *mplite.Config
			switch how {
			case "config":
				cfg = &mplite.Config{Config: jobs.Config{PeerTimeout: time.Second}}
			case "size":
				cfg = &mplite.Config{Config: jobs.Config{Size: 1}}
			}
			if _, err := mplite.Init(bg, cfg); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	bare := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BOBNET_") })
	for _, tc := range []struct {
		how   string
		env   string
		lines int
	}{
		{"nil", vipl.EnvInterface + "=eth0", 1},
		{"config", "", 1},
		{"size", "", 0},
		{"nil", jobs.EnvSize + "=1", 0},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSaysAlone$")
		cmd.Env = append(bare, envAlone+"="+tc.how, tc.env, jobs.EnvRank+"=0")
		var out bytes.Buffer
		cmd.Stderr = &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%+v: %v\n%s", tc, err, &out)
		}
		if got := strings.Count(out.String(), "\n"); got != tc.lines || got == 1 && !strings.Contains(out.String(), jobs.EnvSize+" is not set") {
			t.Errorf("%+v: stderr has %d lines:\n%s", tc, got, &out)
		}
	}
}

// memberJob is a job whose ranks join by package job, as a program does that uses
// several packages with ranks, and then run fn.
func memberJob(size int, fn func(j *testJob, m *jobs.Member, cfg mplite.Config) error) error {
	j := newJob(size, sim.Options{}, small)
	for rank := range size {
		j.host(fmt.Sprintf("rank %d", rank), func(nic *vipl.NIC) error {
			m, err := jobs.Open(bg, &jobs.Config{Job: "test", Rank: rank, Size: size, NIC: nic}, jobs.Program{Name: "Base", Version: 1})
			if err != nil {
				return err
			}
			cfg := small
			cfg.Member = m
			return fn(j, m, cfg)
		})
	}
	return j.run()
}

// TestMember: mplite is one of several packages of a process in one run of one job. It
// may begin again after Finalize, and not twice at a time.
func TestMember(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		check(t, memberJob(size, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
			for range 2 {
				c, err := mplite.Init(bg, &cfg)
				if err != nil {
					return err
				}
				sum := []int{1}
				if err := mplite.Allreduce(bg, c, nil, sum, mplite.Sum[int]()); err != nil {
					return err
				}
				if c.Rank() != m.Identity().Rank || c.Size() != size || sum[0] != size || c.Job() != "test" {
					return fmt.Errorf("%v, sum %d", c, sum[0])
				}
				if _, err := mplite.Init(bg, &cfg); err == nil || !strings.Contains(err.Error(), "already uses this member") {
					return fmt.Errorf("a second Init: %w", err)
				}
				if err := c.Finalize(bg); err != nil {
					return err
				}
			}
			return errors.Join(m.Err(), m.Leave(bg))
		}))
	}
}

// TestMemberCancelled: an Init whose context has ended leaves the member as it was.
func TestMemberCancelled(t *testing.T) {
	check(t, memberJob(1, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		if _, err := mplite.Init(ctx, &cfg); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("with a context that has ended: %w", err)
		}
		c, err := mplite.Init(bg, &cfg)
		if err != nil {
			return err
		}
		return errors.Join(c.Finalize(bg), m.Leave(bg))
	}))
}

// TestMemberSaysAll: what the member says must not be said again.
func TestMemberSaysAll(t *testing.T) {
	check(t, memberJob(1, func(_ *testJob, m *jobs.Member, cfg mplite.Config) error {
		for _, change := range []func(*mplite.Config){
			func(c *mplite.Config) { c.Job = "test" },
			func(c *mplite.Config) { c.Size = 1 },
			func(c *mplite.Config) { c.Interface = "eth0" },
		} {
			wrong := cfg
			change(&wrong)
			if _, err := mplite.Init(bg, &wrong); !errors.Is(err, mplite.ErrArgument) {
				return fmt.Errorf("%+v: %w", wrong, err)
			}
		}
		return m.Leave(bg)
	}))
}

// TestMemberHasFailed: Init ends, and says why, when the member knows of a rank that has
// failed before its own Init.
func TestMemberHasFailed(t *testing.T) {
	check(t, memberJob(3, func(j *testJob, m *jobs.Member, cfg mplite.Config) error {
		if m.Identity().Rank == victim {
			j.Sleep(time.Second) // until all have joined
			m.Fail(errors.New("base: no more memory"))
			return nil
		}
		_, err := mplite.Init(bg, &cfg)
		var failed *mplite.RankError
		if !errors.As(err, &failed) || failed.Rank != victim {
			return fmt.Errorf("init: %w", err)
		}
		if now := time.Duration(j.Now() - sim.Start); now > 3*time.Second {
			return fmt.Errorf("init ended at %v", now)
		}
		m.Fail(err)
		return nil
	}))
}

// isTwice returns an error unless err says that two processes claim a rank, and
// where they are.
func isTwice(err error, rank int) error {
	var twice *mplite.DuplicateError
	if !errors.As(err, &twice) || !errors.Is(err, mplite.ErrInit) || twice.Rank != rank || twice.Job != "test" ||
		twice.First == twice.Second || twice.First.IsZero() || twice.Second.IsZero() {
		return fmt.Errorf("%w, want that rank %d is there twice, and where", err, rank)
	}
	return nil
}

// begins adds a rank that starts after a while and ends as want has it.
func (j *testJob) begins(name string, rank int, after time.Duration, want func(error) error) {
	j.host(name, func(nic *vipl.NIC) error {
		if err := j.Sleep(after); err != nil {
			return err
		}
		err := want(j.rank(nic, rank, func(c *mplite.Comm) error { return c.Barrier(bg) }))
		if took := time.Duration(j.Now()-sim.Start) - after; err == nil && took > 3*time.Second {
			return fmt.Errorf("%s ended after %v", name, took)
		}
		return err
	})
}

// TestTwoRuns: of two jobs of one name all ranks say so, whoever comes first and
// whomever they meet; no rank of one works with ranks of the other.
func TestTwoRuns(t *testing.T) {
	for _, size := range []int{2, 3, 5} {
		for _, later := range []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond} {
			seeds(t, 8, func(seed uint64) error {
				j := newJob(size, sim.Options{Seed: seed, Reorder: 0.1}, small)
				for rank := range size {
					for run := range 2 {
						j.begins(fmt.Sprintf("rank %d of run %d", rank, run), rank, time.Duration(run)*later,
							func(err error) error { return isTwice(err, 0) })
					}
				}
				return j.run()
			})
		}
	}
}

// TestRankTwice: all ranks say that one was started twice.
func TestRankTwice(t *testing.T) {
	const size = 4
	for twice := 1; twice < size; twice++ {
		seeds(t, 8, func(seed uint64) error {
			j := newJob(size, sim.Options{Seed: seed}, small)
			for rank := range size {
				want := func(err error) error { return isTwice(err, twice) }
				j.begins(fmt.Sprint("rank ", rank), rank, time.Duration(rank%2)*time.Millisecond, want)
				if rank == twice {
					j.begins(fmt.Sprint("rank ", rank, " again"), rank, 0, want)
				}
			}
			return j.run()
		})
	}
}

// TestRankAgain: a rank that is started again when its job works learns at once
// that it is there already. The job does not notice, but counts it.
func TestRankAgain(t *testing.T) {
	const size = 3
	for again := range size {
		j := newJob(size, sim.Options{}, small)
		told := false
		j.start(func(c *mplite.Comm) error {
			for !told {
				c.Iprobe(c.Rank(), 0)
				c.NIC().Poll()
				if err := j.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			refused := []uint64{c.Snapshot().Refused}
			if err := mplite.Allreduce(bg, c, nil, refused, mplite.Sum[uint64]()); err != nil {
				return err
			}
			if refused[0] != 1 {
				return fmt.Errorf("%d requests refused, want 1", refused[0])
			}
			return nil
		})
		j.host("again", func(nic *vipl.NIC) error {
			defer func() { told = true }()
			j.Sleep(500 * time.Millisecond)
			return isTwice(j.rank(nic, again, nil), again)
		})
		check(t, j.run())
	}
}

// TestOtherRun: a rank that knows another run of the job than this one is refused,
// by rank 0 and by others.
func TestOtherRun(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	ended := 0
	meet := func(c *mplite.Comm) error {
		ended++
		if got := c.Snapshot().Refused; c.Rank() < 2 && got != 1 {
			return fmt.Errorf("%d requests refused, want 1", got)
		}
		return c.Barrier(bg)
	}
	for rank := range 2 {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error { return j.rank(nic, rank, meet) })
	}
	j.host("rank 2", func(nic *vipl.NIC) error {
		for rank := range 2 {
			addr, err := nic.Lookup(bg, fmt.Sprint("job/test/", rank))
			if err != nil {
				return err
			}
			vi, err := nic.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			err = vi.Connect(bg, addr, mplite.OfRun(mplite.Hello("test", 2, 3), 12345))
			if !errors.Is(err, vipl.ErrReject) || !contains(err, `another run of job "test"`) {
				return fmt.Errorf("rank %d: %w, want a refusal", rank, err)
			}
			vi.Close()
		}
		return j.rank(nic, 2, meet)
	})
	check(t, j.run())
	if ended != 3 {
		t.Errorf("%d ranks have met", ended)
	}
}
