package splitc_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport"
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

// TestInterfaceGone: on every layer the waits of a rank end when its interface is gone: those
// that block at that moment, and later ones.
func TestInterfaceGone(t *testing.T) {
	for _, layer := range splitc.Layers() {
		t.Run(layer, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			var nics [2]*vipl.NIC
			for side := range nics {
				if err := p.In(side, func() (err error) {
					nics[side], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, WireOnly: true})
					return err
				}); err != nil {
					t.Fatal(err)
				}
				defer nics[side].Close()
			}
			ready, ended := make(chan error), make(chan error)
			for rank, nic := range nics {
				go func() {
					w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: fmt.Sprint(t.Name(), os.Getpid()), Rank: rank, Size: 2, NIC: nic}, Layer: layer, HeapSize: 1 << 20})
					var a splitc.Array[int64]
					if err == nil {
						a, err = splitc.AllSpreadMalloc[int64](bg, w, 2, 8)
					}
					if ready <- err; err == nil {
						ended <- goneWaits(w, a, rank)
					}
				}()
			}
			if err := errors.Join(<-ready, <-ready); err != nil {
				t.Fatal(err)
			}
			if err := p.Delete(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-ended, <-ended); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// goneWaits waits in all ways, beginning with another one on each rank.
func goneWaits(w *splitc.World, a splitc.Array[int64], rank int) error {
	there := a.On(1 - rank)
	waits := []struct {
		name string
		wait func() error
	}{
		{"Barrier", func() error { return w.Barrier(bg) }},
		{"StoreSync", func() error { return w.StoreSync(bg, 8) }},
		{"Read", func() error { _, err := splitc.Read(bg, w, there); return err }},
		{"Write", func() error { return splitc.Write(bg, w, there, 1) }},
		{"FetchAdd", func() error { _, err := splitc.FetchAdd(bg, w, there, 1); return err }},
		{"AllStoreSync", func() error { return w.AllStoreSync(bg) }},
		{"BulkRead", func() error { return splitc.BulkRead(bg, w, make([]int64, 4), there) }},
		{"AllSpreadMalloc", func() error { _, err := splitc.AllSpreadMalloc[int64](bg, w, 2, 8); return err }},
	}
	var errs []error
	for i := range waits {
		x := waits[(i+rank)%len(waits)]
		if err := x.wait(); !errors.Is(err, transport.ErrGone) {
			errs = append(errs, fmt.Errorf("rank %d: %s: %v, want ErrGone", rank, x.name, err))
		}
	}
	return errors.Join(errs...)
}

const noInk = "no more ink"

// givesUp ends the program of the process where it runs, and uses that one's heap afterwards.
var givesUp = splitc.Atomic("test.givesUp", func(w *splitc.World, p splitc.Global[int64]) int64 {
	w.Fail(errors.New(noInk))
	w.Fail(errors.New("a second reason"))
	v, err := splitc.ToLocal(w, p)
	if err != nil {
		panic(err)
	}
	*v += 5
	if err := w.Exit(bg); !errors.Is(err, splitc.ErrInAtomic) {
		panic(err)
	}
	return *v
})

// TestFailInAtomic: a procedure that calls Fail ends its process's program when it returns. The
// heap is there until Exit, all calls return the reason, and all other ranks are told it.
func TestFailInAtomic(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		for _, caller := range []int{0, 1} { // another one than the owner, and the owner itself
			p := newProgram(3, sim.Options{}, splitc.Config{Layer: layer})
			through := 0
			p.start(func(w *splitc.World) error {
				a, err := splitc.AllSpreadMalloc[int64](bg, w, 3, 1)
				for through++; err == nil && through < 3; err = p.Sleep(time.Millisecond) { // all have left it
					if err := w.Poll(); err != nil {
						return err
					}
				}
				if err != nil {
					return fmt.Errorf("%w, want an array", err)
				}
				return failInAtomic(w, a, caller)
			})
			err := p.run()
			if err == nil || strings.Contains(err.Error(), "want") {
				t.Errorf("rank %d calls: %v", caller, err)
			}
		}
	})
	w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: "alone", Size: 1}, HeapSize: splitc.MinHeapSize})
	check(t, err)
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 1, 1)
	check(t, err)
	if err := failInAtomic(w, a, 0); err == nil || strings.Contains(err.Error(), "want") {
		t.Errorf("alone: %v", err)
	}
	if err := w.Exit(bg); err == nil || !strings.Contains(err.Error(), noInk) {
		t.Errorf("alone, exit: %v", err)
	}
}

// failInAtomic has rank caller call givesUp at the owner, which is rank 1 if there is one. It
// returns the failure of the program.
func failInAtomic(w *splitc.World, a splitc.Array[int64], caller int) error {
	owner := min(1, w.Procs()-1)
	mine := a.Local(w)
	if w.MyProc() == caller {
		_, err := givesUp.Call(bg, w, owner, a.On(owner))
		if err == nil || !strings.Contains(err.Error(), noInk) || caller != owner && !errors.Is(err, splitc.ErrAtomic) && !errors.Is(err, splitc.ErrRankFailed) {
			return fmt.Errorf("the procedure has ended with %w, want %q", err, noInk)
		}
	}
	err := w.Barrier(bg)
	if err == nil && w.MyProc() != owner { // the owner was in that one already
		err = w.Barrier(bg)
	}
	if err == nil || !strings.Contains(err.Error(), noInk) {
		return fmt.Errorf("the barrier ends with %w, want %q", err, noInk)
	}
	if w.MyProc() != owner {
		if !errors.Is(err, splitc.ErrRankFailed) {
			return fmt.Errorf("rank %d hears %w, want that rank %d has failed", w.MyProc(), err, owner)
		}
		return err
	}
	again := w.Sync(bg)
	if again == nil || again.Error() != err.Error() || errors.Is(again, splitc.ErrClosed) {
		return fmt.Errorf("the next call says %w, want %w", again, err)
	}
	if mine[0] != 5 || a.Local(w)[0] != 5 {
		return fmt.Errorf("the heap has %d, want 5", mine[0])
	}
	if s := w.Snapshot(); !strings.Contains(s.Failure, noInk) {
		return fmt.Errorf("the snapshot says %q, want %q", s.Failure, noInk)
	}
	return err
}

// computingTimeout is how long a silent process is believed to be alive, and it is silent for
// three times as long.
const computingTimeout = 2 * time.Second

// TestComputingLive: a process that makes no call for several times as long as a silent one
// is believed to be alive, is not taken for dead, over any layer, and what others have asked
// of it is done in the end. Over RDMA that is so while it still computes.
func TestComputingLive(t *testing.T) {
	nics := linkNICs(t, "ring", func(_ int, l transport.Link) transport.Link { return l })
	layers := splitc.Layers()
	done := make(chan error, len(layers))
	for _, layer := range layers { // all at once
		go func() {
			if err := computing(nics, fmt.Sprint(t.Name(), layer, os.Getpid()), layer); err != nil {
				done <- fmt.Errorf("layer %s: %w", layer, err)
				return
			}
			done <- nil
		}()
	}
	for range layers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// computing runs a program of two processes, one of which computes.
func computing(nics [2]*vipl.NIC, name, layer string) error {
	var over atomic.Bool
	done := make(chan error, len(nics))
	for rank, nic := range nics {
		go func() {
			w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: name, Rank: rank, Size: 2, NIC: nic, PeerTimeout: computingTimeout}, Layer: layer, HeapSize: 1 << 20})
			if err == nil {
				if err = computes(w, &over); err == nil {
					err = w.Exit(bg)
				} else {
					w.Fail(err)
				}
			}
			done <- err
		}()
	}
	return errors.Join(<-done, <-done)
}

// computes is the program: process 1 computes until over.
func computes(w *splitc.World, over *atomic.Bool) error {
	const stores = 200 // more than there are credits
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, stores)
	if err == nil {
		err = w.Barrier(bg)
	}
	if err != nil {
		return err
	}
	if w.MyProc() == 1 {
		<-time.After(3 * computingTimeout) // leaves the processors to the other programs
		over.Store(true)
		if err := w.StoreSync(bg, 8*stores); err != nil {
			return err
		}
		return w.Barrier(bg)
	}
	if _, err := splitc.Read(bg, w, a.On(1)); err != nil {
		return err
	}
	if err := splitc.Write(bg, w, a.On(1), 1); err != nil {
		return err
	}
	if alone := !over.Load(); alone != (w.Layer() == "rdma") {
		return fmt.Errorf("a read and a write are complete while their target computes: %t", alone)
	}
	for i := range stores {
		if err := splitc.Store(bg, w, a.On(1).Add(i), 1); err != nil {
			return err
		}
	}
	return w.Barrier(bg)
}
