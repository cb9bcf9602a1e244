package job_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// clean takes the job out of the environment.
func clean(t *testing.T) {
	for _, name := range []string{job.EnvJob, job.EnvRank, job.EnvSize, vipl.EnvTimeout} {
		t.Setenv(name, "")
	}
}

// TestConfig: what a Config leaves zero comes from the environment, what it gives
// does not, and what is wrong is named.
func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name       string
		rank, size string
		cfg        job.Config
		says       string // empty: rank and size are want
		want       [2]int
	}{
		{cfg: job.Config{}, want: [2]int{0, 1}},
		{size: "3", rank: "2", name: "j", want: [2]int{2, 3}},
		{size: "3", rank: "2", name: "j", cfg: job.Config{Rank: 1, Size: 2}, want: [2]int{1, 2}},
		{size: "3", rank: "2", name: "j", cfg: job.Config{Size: 2}, want: [2]int{0, 2}},
		{size: "many", says: `BOBNET_SIZE is "many"`},
		{size: "2", rank: "", says: `BOBNET_RANK is ""`},
		{size: "2", rank: "2", name: "j", says: "rank 2 is not in 0..1"},
		{size: "2", rank: "1", says: "needs a name"},
		{size: "-1", rank: "0", name: "j", says: "a job of -1 ranks is not in 1..4096"},
		{name: strings.Repeat("j", 200), says: "name has 200 bytes"},
		{cfg: job.Config{Timeout: -1}, says: "a time limit is negative: Timeout -1ns, PeerTimeout 0s"},
	} {
		clean(t)
		t.Setenv(job.EnvJob, tc.name)
		t.Setenv(job.EnvRank, tc.rank)
		t.Setenv(job.EnvSize, tc.size)
		cfg, err := tc.cfg.FromEnvironment()
		if err == nil {
			err = cfg.Check()
		}
		switch {
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%+v: %v, want %q", tc, err, tc.says)
		case tc.says == "" && (err != nil || [2]int{cfg.Rank, cfg.Size} != tc.want || cfg.Timeout != job.DefaultTimeout):
			t.Errorf("%+v: %+v, %v", tc, cfg, err)
		}
	}
}

func identity(rank int, nonce uint64) job.Identity {
	return job.Identity{Job: "test", Rank: rank, Size: 3, Nonce: nonce, Program: "Test", Version: 2}
}

// TestCheck: a rank takes the ranks of its own run, and rank 0 also one that does
// not know the run yet; all others are refused in words that say why.
func TestCheck(t *testing.T) {
	const run = 77
	peer := func(change func(*job.Identity)) job.Identity {
		id := identity(2, run)
		change(&id)
		return id
	}
	for _, tc := range []struct {
		rank  int
		peer  job.Identity
		says  string
		claim bool
	}{
		{0, identity(2, run), "", true},
		{1, identity(2, run), "", true},
		{0, identity(2, 0), "", true},
		{1, identity(2, 0), "another run of job \"test\"", true},
		{0, identity(2, run+1), "another run of job \"test\"", true},
		{0, peer(func(id *job.Identity) { id.Job = "other" }), "not of this job", false},
		{0, peer(func(id *job.Identity) { id.Size = 4 }), "has 4 ranks according to rank 2 and 3 according to rank 0", false},
		{0, peer(func(id *job.Identity) { id.Rank = 3 }), "rank 3 of 3 asks rank 0", false},
		{0, peer(func(id *job.Identity) { id.Version = 3 }), "Test wire version 3, this rank uses 2", false},
	} {
		mine := identity(tc.rank, run)
		said := tc.peer.Hello([2]uint32{5, 6})
		var b [joining.HelloSize]byte
		said.Put(b[:])
		heard := mine.ParseHello(b[:])
		if heard != said && tc.peer.Version == mine.Version {
			t.Errorf("%+v reads back as %+v", said, heard)
		}
		err := mine.Check(&heard)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("rank %d of %+v: %v, want %q", tc.rank, tc.peer, err, tc.says)
		}
		if other := tc.peer.Version != mine.Version; errors.Is(err, job.ErrVersion) != other {
			t.Errorf("rank %d of %+v: %v, want that it is of another version: %t", tc.rank, tc.peer, err, other)
		}
		if got := mine.Claims(&heard); got != tc.claim {
			t.Errorf("rank %d of %+v claims to be of the job: %v", tc.rank, tc.peer, got)
		}
	}
	if job.NewNonce() == 0 {
		t.Error("a nonce is 0, which means that it is not known")
	}
}

// TestHello: a hello names the rank, and a rank refuses one of another size with the reason.
func TestHello(t *testing.T) {
	me := job.Identity{Job: "halo", Rank: 1, Size: 2, Program: "Halo", Version: 1}
	var request [joining.HelloSize]byte
	hello := me.Hello([2]uint32{})
	hello.Put(request[:]) // the private data of a request for a connection

	root := job.Identity{Job: "halo", Rank: 0, Size: 2, Nonce: job.NewNonce(), Program: "Halo", Version: 1}
	heard := root.ParseHello(request[:])
	if at := me.Address(0); at != "job/halo/0" || heard.Rank != 1 || root.Check(&heard) != nil {
		t.Errorf("%q, rank %d: %v", at, heard.Rank, root.Check(&heard))
	}
	heard.Size = 3
	want := `job "halo" has 3 ranks according to rank 1 and 2 according to rank 0: start all ranks with the same BOBNET_SIZE`
	if err := root.Check(&heard); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestReports: a rank passes on what it has been told in the words of who saw it,
// and the errors that reports stand for have the classes that callers look for.
func TestReports(t *testing.T) {
	first, second := ethertype.Addr{Port: 1}, ethertype.Addr{Port: 2}
	me := identity(1, 7)
	own := me.ReportOf(errors.New("test: init: no memory"))
	if want := (joining.Report{Rank: 1, Why: "it gave up: init: no memory"}); own != want {
		t.Errorf("%+v, want %+v", own, want)
	}
	var failed *job.RankError
	told := error(&job.RankError{Rank: 1, Err: job.CauseOf(own, 2)}) // rank 2 has told of rank 1
	if !errors.As(told, &failed) || failed.Rank != 1 || !errors.Is(told, job.ErrRankFailed) || !errors.Is(told, job.ErrReported) ||
		!strings.Contains(told.Error(), "by rank 2: it gave up") {
		t.Errorf("%v", told)
	}
	third := identity(0, 7)
	if again := third.ReportOf(told); again != own {
		t.Errorf("%+v was passed on as %+v", own, again)
	}
	if direct := job.CauseOf(own, 1); errors.Is(direct, job.ErrReported) {
		t.Errorf("%v is hearsay, although the rank has said it itself", direct)
	}
	twice := joining.Report{Rank: 2, First: first, Second: second}
	err := error(&job.DuplicateError{Job: "test", Rank: 2, First: first, Second: second})
	if !errors.Is(err, job.ErrInit) || me.ReportOf(fmt.Errorf("wrapped: %w", err)) != twice {
		t.Errorf("%+v was passed on as %+v", twice, me.ReportOf(err))
	}
}

// TestRanks: few ranks are named by number, of many the first ones.
func TestRanks(t *testing.T) {
	for n, want := range map[int]string{1: "rank 0", 3: "rank 0, 1, 2", 10: "rank 0, 1, 2, 3, 4, 5, 6, 7, and 2 more"} {
		var ranks []int
		for rank := range n {
			ranks = append(ranks, rank)
		}
		if got := job.Ranks(ranks); got != want {
			t.Errorf("%d ranks: %q, want %q", n, got, want)
		}
	}
}

// FuzzParse feeds any bytes to the parsers: they must not panic, and what they
// accept must read back as it is.
func FuzzParse(f *testing.F) {
	id := identity(1, 7)
	var b [joining.HelloSize]byte
	hello := id.Hello([2]uint32{1, 2})
	hello.Put(b[:])
	f.Add(b[:])
	f.Add(b[:20])
	for _, text := range []string{"fail 3 why", "fail 8 why", "fail", "twice 1 02:00:00:00:00:01/7 02:00:00:00:00:02/7", "twice 1 02:00:00:00:00:01/7 x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m := id.ParseHello(b); m.Version == id.Version && len(b) >= joining.HelloSize {
			var again [joining.HelloSize]byte
			if m.Put(again[:]); string(again[:]) != string(b[:joining.HelloSize]) {
				t.Fatalf("%+v reads back as %x, not %x", m, again, b)
			}
		}
		if r, ok := joining.ParseReport(string(b), 8); ok {
			if again, ok := joining.ParseReport(r.String(), 8); !ok || again != r {
				t.Fatalf("report %+v reads back as %+v, %v", r, again, ok)
			}
		}
	})
}
