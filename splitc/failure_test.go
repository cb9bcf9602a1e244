package splitc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// waits are what a rank may be in when another one fails.
var waits = []struct {
	name string
	call func(w *splitc.World, a splitc.Array[int64]) error
}{
	{"barrier", func(w *splitc.World, _ splitc.Array[int64]) error { return w.Barrier(bg) }},
	{"read", func(w *splitc.World, a splitc.Array[int64]) error {
		_, err := splitc.Read(bg, w, a.On(victim))
		return err
	}},
	{"write", func(w *splitc.World, a splitc.Array[int64]) error { return splitc.Write(bg, w, a.On(victim), 1) }},
	{"sync", func(w *splitc.World, a splitc.Array[int64]) error {
		if err := splitc.Put(bg, w, a.On(victim), 1); err != nil {
			return err
		}
		return w.Sync(bg)
	}},
	{"store", func(w *splitc.World, a splitc.Array[int64]) error { return splitc.Store(bg, w, a.On(victim), 1) }},
	{"store_sync", func(w *splitc.World, _ splitc.Array[int64]) error { return w.StoreSync(bg, 8) }},
	{"atomic", func(w *splitc.World, a splitc.Array[int64]) error {
		_, err := splitc.FetchAdd(bg, w, a.On(victim), 1)
		return err
	}},
	{"exit", func(w *splitc.World, _ splitc.Array[int64]) error { return w.Exit(bg) }},
}

// victim is the rank that fails.
const victim = 1

// TestDeath: a rank that dies, or gives up, ends what the others wait for, whatever that
// is and for whomever, with an error that names it, in bounded time.
func TestDeath(t *testing.T) {
	ways := map[string]func(p *program, w *splitc.World) error{
		"killed": func(p *program, _ *splitc.World) error {
			p.Kill(p.stations[victim])
			return errKilled
		},
		"fails": func(_ *program, w *splitc.World) error {
			w.Fail(errors.New("no more paper"))
			return errKilled
		},
	}
	eachLayer(t, func(t *testing.T, layer string) {
		for _, how := range []string{"killed", "fails"} {
			for i, wait := range waits {
				if !need.Full() && how == "fails" && i > 0 {
					continue
				}
				if err := death(layer, how, ways[how], wait.call); err != nil {
					t.Errorf("%s, while others are in %s: %v", how, wait.name, err)
				}
			}
		}
	})
}

func death(layer, how string, die func(p *program, w *splitc.World) error, call func(w *splitc.World, a splitc.Array[int64]) error) error {
	p := newProgram(4, sim.Options{}, splitc.Config{Layer: layer, Config: job.Config{PeerTimeout: 5 * time.Second}})
	through := 0
	for rank := range p.cfg.Size {
		p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			cfg := p.cfg
			cfg.NIC, cfg.Rank = nic, rank
			w, err := splitc.Start(bg, &cfg)
			if err != nil {
				return err
			}
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 4, 1)
			if err == nil {
				err = w.Barrier(bg)
			}
			for through++; err == nil && through < cfg.Size; err = w.Poll() { // all have left the barrier before one dies
				if err := p.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			if rank == victim {
				return die(p, w)
			}
			began := p.Now()
			for err == nil { // stores go on until it is known
				err = call(w, a)
				if e := p.Sleep(time.Millisecond); e != nil {
					return e
				}
			}
			if err := names(err, how); err != nil {
				return err
			}
			if took := time.Duration(p.Now() - began); took > 12*time.Second {
				return fmt.Errorf("it took %v to hear that rank %d has failed", took, victim)
			}
			if err := w.Exit(bg); !errors.Is(err, splitc.ErrRankFailed) && !errors.Is(err, splitc.ErrClosed) {
				return fmt.Errorf("exit after a failure: %w", err)
			}
			return nil
		})
	}
	return p.run()
}

// names returns an error unless err says that the victim has failed, and why if it has
// said so.
func names(err error, how string) error {
	var failed *job.RankError
	if !errors.As(err, &failed) || failed.Rank != victim || !errors.Is(err, splitc.ErrRankFailed) {
		return fmt.Errorf("%w, want that rank %d has failed", err, victim)
	}
	if how == "fails" && !strings.Contains(err.Error(), "no more paper") {
		return fmt.Errorf("%w, want its reason", err)
	}
	return nil
}

// TestAbsent: ranks that wait for one which never starts end after their time-out with an
// error that names it.
func TestAbsent(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer, Config: job.Config{Timeout: 2 * time.Second}})
		for _, rank := range []int{0, 2} {
			p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				cfg := p.cfg
				cfg.NIC, cfg.Rank = nic, rank
				_, err := splitc.Start(bg, &cfg)
				if err == nil || !strings.Contains(err.Error(), "rank 1") {
					return fmt.Errorf("%w, want that rank 1 is missing", err)
				}
				return nil
			})
		}
		check(t, p.run())
	})
}

// TestComputing: a rank that computes for ten seconds answers when it polls, and nobody
// takes it for dead, however short the time is after which silence means that.
func TestComputing(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer, Config: job.Config{PeerTimeout: 2 * time.Second}})
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 3, 200)
			if err != nil {
				return err
			}
			if w.MyProc() == 1 {
				for end := p.Now() + int64(10*time.Second); p.Now() < end; w.NIC().Poll() {
					if err := p.Sleep(time.Millisecond); err != nil {
						return err
					}
				}
				return w.Barrier(bg)
			}
			for i := range 200 { // more than there are credits
				if err := splitc.Store(bg, w, a.On(1).Add(i), 1); err != nil {
					return err
				}
			}
			if _, err := splitc.Read(bg, w, a.On(1)); err != nil {
				return err
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}

// TestOneSided: over layers that need no target, reads, writes and bulk reads are complete while
// their target computes and makes no call; over the others, when it makes one.
func TestOneSided(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(2, sim.Options{}, splitc.Config{Layer: layer})
		computes := false
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 2000)
			if err == nil {
				err = w.Barrier(bg)
			}
			if err != nil {
				return err
			}
			if w.MyProc() == 1 {
				computes = true
				for end := p.Now() + int64(10*time.Second); p.Now() < end; w.NIC().Poll() { // as its service does
					if err := p.Sleep(time.Millisecond); err != nil {
						return err
					}
				}
				computes = false
				return w.Barrier(bg)
			}
			for !computes {
				if err := p.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			alone := layer == "rdma" || layer == "shm"
			for i, do := range []func() error{
				func() error { _, err := splitc.Read(bg, w, a.On(1)); return err },
				func() error { return splitc.Write(bg, w, a.On(1), 1) },
				func() error { return splitc.BulkRead(bg, w, make([]int64, 2000), a.On(1)) },
			} {
				if err := do(); err != nil {
					return err
				}
				if computes != alone {
					return fmt.Errorf("a %s is complete, and its target computes: %t, want %t", []string{"read", "write", "bulk read"}[i], computes, alone)
				}
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}

// TestOutage: a program outlives a network that is gone for five seconds.
func TestOutage(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer})
		p.start(func(w *splitc.World) error {
			a, err := splitc.AllSpreadMalloc[int64](bg, w, 3, 3)
			if err != nil {
				return err
			}
			if w.MyProc() == 0 {
				p.Isolate(p.stations[0])
				p.At(p.Now()+int64(5*time.Second), p.Heal)
			}
			for i := range 100 {
				for proc := range 3 {
					if err := splitc.Store(bg, w, a.On(proc).Add(w.MyProc()), int64(i)); err != nil {
						return err
					}
				}
			}
			if err := w.StoreSync(bg, 8*3*100); err != nil {
				return err
			}
			return w.Barrier(bg)
		})
		check(t, p.run())
	})
}
