package job_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// space is a launcher's key-value space in virtual time, without faults.
type space struct {
	w       *world
	size    int
	values  map[string]string
	puts    map[string]string
	in      int // ranks in the barrier
	rounds  int
	refuse  error // of Get
	barrier error
	again   func(first, second string) (string, error) // of Put of a key that is there; nil: it is refused
	seats   map[int]bool                               // ranks that have one
}

// of returns the space as every rank has it.
func (s *space) of(id *job.Identity) job.Space {
	second := s.seats[id.Rank]
	s.seats[id.Rank] = true
	return &seat{space: s, second: second}
}

// seat is one rank's connection with the space.
type seat struct {
	*space
	waits  int  // the round whose end it waits for
	second bool // of its rank, which the launcher counts once
}

func (s *seat) Put(_ context.Context, key, value string) error {
	if s.puts[key] != "" && s.again != nil {
		var err error
		if value, err = s.again(s.puts[key], value); err != nil {
			return err
		}
		s.puts[key] = ""
	}
	if s.puts[key] != "" || len(value) > 64 || strings.Trim(value, "0123456789abcdef-") != "" {
		return fmt.Errorf("key %q with value %q cannot be put", key, value)
	}
	s.puts[key] = value
	return nil
}

func (s *seat) Barrier(ctx context.Context) error {
	if s.space.barrier != nil {
		return s.space.barrier
	}
	if s.waits == 0 {
		if !s.second {
			s.in++
		}
		s.waits = s.rounds + 1
	}
	for s.rounds < s.waits {
		if s.in == s.size {
			s.in, s.rounds = 0, s.rounds+1
			for k, v := range s.puts {
				s.values[k] = v
			}
			break
		}
		if ctx.Err() != nil || s.w.now() > s.w.cfg.Timeout { // contexts do not end in virtual time
			return context.DeadlineExceeded
		}
		if err := s.w.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	s.waits = 0
	return nil
}

func (s *seat) Get(_ context.Context, key string) (string, error) {
	if s.refuse != nil {
		return "", s.refuse
	}
	if s.values[key] == "" {
		return "", fmt.Errorf("no key %q", key)
	}
	return s.values[key], nil
}

// newSpace has the ranks of w meet by a space.
func newSpace(t *testing.T, w *world) *space {
	s := &space{w: w, size: w.cfg.Size, values: map[string]string{}, puts: map[string]string{}, seats: map[int]bool{}}
	t.Cleanup(job.SetSpace(s.of))
	return s
}

// TestMeetBySpace: ranks that start in any order come together by what they have put,
// over any loss; and nobody asks the segment for a name.
func TestMeetBySpace(t *testing.T) {
	const size = 6
	seeds(t, 4, func(seed uint64) error {
		w := newWorld(size, sim.Options{Seed: seed, Loss: 0.05, Reorder: 0.1})
		newSpace(t, w)
		queries := 0
		w.Script(func(_ int64, _, _ *sim.Station, frame []byte) sim.Action {
			var h ethertype.Header
			if _, err := h.Parse(frame); err == nil && h.Kind == ethertype.KindQuery {
				queries++
			}
			return sim.Action{}
		})
		for rank := range size {
			w.host(fmt.Sprint("rank ", rank), time.Duration(seed*uint64(rank)%5)*time.Millisecond, func(nic *vipl.NIC) error {
				m, err := w.join(bg, nic, rank)
				if err != nil {
					return err
				}
				for other := range size {
					if other != rank && m.Params(other) != [2]uint32{uint32(other), 7} {
						return fmt.Errorf("rank %d tells %v", other, m.Params(other))
					}
				}
				return m.Leave(bg)
			})
		}
		if err := w.run(); err != nil || queries > 0 {
			return fmt.Errorf("%w, and the segment was asked for %d names", err, queries)
		}
		return nil
	})
}

// TestSpaceFails: a rank that never comes, a launcher that dies, and a rank of another
// version are named, and no rank hangs.
func TestSpaceFails(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks  int // that come, of 3
		change func(*space)
		says   string
	}{
		"one is missing": {2, func(*space) {}, "rank 2 of job \"test\" did not appear within 5.001s: check that it runs, on this segment, with the same BOBNET_JOB and key (not all ranks reached the launcher's barrier: context deadline exceeded) (to see whether frames pass between two hosts: bobnet doctor --host HOST,HOST)"},
		"barrier":        {3, func(s *space) { s.barrier = fmt.Errorf("the launcher has died") }, "the launcher has died"},
		"get":            {3, func(s *space) { s.refuse = fmt.Errorf("the launcher has died") }, "the launcher has died"},
		"version":        {3, func(s *space) { s.values["bobnet-0"], s.puts["bobnet-0"] = "3-x", "" }, "build all ranks from the same source"},
	} {
		w := newWorld(3, sim.Options{})
		w.cfg.Timeout = 5 * time.Second
		s := newSpace(t, w)
		tc.change(s)
		for rank := range tc.ranks {
			w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
				m, err := w.join(bg, nic, rank)
				if err == nil {
					return m.Leave(bg)
				}
				if !contains(err, tc.says) && !contains(err, "rank 0 failed") {
					return fmt.Errorf("%s: %w, want %q", name, err, tc.says)
				}
				return nil
			})
		}
		if err := w.run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValue: what ranks put fits the smallest spaces, needs no escapes, and reads back;
// anything else is refused.
func TestValue(t *testing.T) {
	addr := ethertype.Addr{MAC: ethertype.MAC{2, 0xff, 0, 1, 2, 3}, Port: 0xfedc}
	params := [2]uint32{1, 1 << 31}
	text := job.Value(addr, params, 1<<63|5)
	if len(text) > 64 || strings.Trim(text, "0123456789abcdef-") != "" {
		t.Errorf("%q", text)
	}
	if a, p, n, err := job.ParseValue(text); a != addr || p != params || n != 1<<63|5 || err != nil {
		t.Errorf("%q reads back as %v, %v, %x, %v", text, a, p, n, err)
	}
	for _, bad := range []string{"", "2", "2--", "2---", "1" + text[1:], text[:len(text)-1], text + "0", strings.Replace(text, "ff", "gg", 1), strings.Replace(text, "fedc", "fed", 1), text[:19] + "x" + text[20:]} {
		if a, p, n, err := job.ParseValue(bad); err == nil {
			t.Errorf("%q reads as %v, %v, %x", bad, a, p, n)
		}
	}
}
