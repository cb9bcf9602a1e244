package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/sparse"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// eachRank runs fn as a process for each rank of a simulated job that has come together.
func eachRank(t *testing.T, size int, fn func(w *sim.World, m *Member) error) {
	t.Helper()
	w := sim.New(sim.Options{})
	for rank := range size {
		station := w.Station(fmt.Sprint("rank ", rank))
		w.Go(fmt.Sprint("rank ", rank), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: station, Seed: uint64(rank) + 1})
			if err != nil {
				t.Error(err)
				return
			}
			defer nic.Close()
			cfg := Config{Job: "test", Rank: rank, Size: size, NIC: nic, Timeout: 20 * time.Second}
			m, err := Open(context.Background(), &cfg, Program{Name: "Base", Version: 1})
			if err == nil {
				err = fn(w, m)
			}
			if err != nil {
				t.Errorf("rank %d at %v: %v", rank, time.Duration(w.Now()-sim.Start), err)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// begin has a program of the name come together in the member's run. What it runs on top
// is a Member's connections.
func begin(m *Member, name string) (*Member, error) {
	t := &tree{cfg: m.t.cfg, nic: m.t.nic, params: [2]uint32{uint32(len(name))}, peers: sparse.New[link](m.t.peers.Len())}
	var err error
	if t.job, err = m.addProgram(joining.Program{Name: name, Version: 3, Links: t, Timeout: t.cfg.Timeout}); err != nil {
		return nil, err
	}
	if err := t.join(context.Background()); err != nil {
		t.close()
		return nil, err
	}
	return &Member{t}, nil
}

// TestPrograms: several programs of a process are one rank of one run, over one NIC.
// None of them takes another one for a rank that is there twice.
func TestPrograms(t *testing.T) {
	const size = 4
	eachRank(t, size, func(w *sim.World, m *Member) error {
		var all []*Member
		for _, name := range []string{"Messages", "Memory"} {
			p, err := begin(m, name)
			if err != nil {
				return err
			}
			all = append(all, p)
			id := p.Identity()
			if want := m.Identity(); id.Nonce != want.Nonce || id.Rank != want.Rank || id.Program != name {
				return fmt.Errorf("the program is %+v, the member %+v", id, want)
			}
			for rank := range size {
				if rank != id.Rank && (p.Params(rank)[0] != uint32(len(name)) || p.Addr(rank).MAC != m.Addr(rank).MAC) {
					return fmt.Errorf("rank %d of %s is at %v with %v", rank, name, p.Addr(rank), p.Params(rank))
				}
			}
		}
		if _, err := begin(m, "Memory"); err == nil || !strings.Contains(err.Error(), "Memory already uses this member") {
			return fmt.Errorf("a program of the same name: %w", err)
		}
		if err := errors.Join(all[0].Leave(context.Background()), all[1].Leave(context.Background())); err != nil {
			return err
		}
		again, err := begin(m, "Memory")
		if err != nil {
			return fmt.Errorf("a program that begins again: %w", err)
		}
		return errors.Join(again.Leave(context.Background()), m.Leave(context.Background()))
	})
}

// TestProgramName: a name that could not be found is refused.
func TestProgramName(t *testing.T) {
	eachRank(t, 1, func(_ *sim.World, m *Member) error {
		if _, err := begin(m, strings.Repeat("x", vipl.MaxName)); err == nil || !strings.Contains(err.Error(), "names of 2") {
			return fmt.Errorf("a long name: %w", err)
		}
		return m.Leave(context.Background())
	})
}

// TestProgramHearsOfFailure: a program that waits for a rank which the member knows to
// have failed says so, long before its time is up.
func TestProgramHearsOfFailure(t *testing.T) {
	const size, victim = 4, 2
	eachRank(t, size, func(w *sim.World, m *Member) error {
		if m.Identity().Rank == victim {
			w.Sleep(100 * time.Millisecond)
			m.Fail(errors.New("base: no more memory"))
			return nil
		}
		_, err := begin(m, "Messages")
		var failed *RankError
		if !errors.As(err, &failed) || failed.Rank != victim || !strings.Contains(err.Error(), "no more memory") {
			return fmt.Errorf("begin: %w, want that rank %d failed", err, victim)
		}
		if now := time.Duration(w.Now() - sim.Start); now > 3*time.Second {
			return fmt.Errorf("that is known at %v", now)
		}
		m.Fail(err)
		return nil
	})
}
