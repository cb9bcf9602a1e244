package layertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Foe is a job of two ranks. The second one is hostile and knows the run's nonce.
type Foe struct {
	*sim.World
	RNG  *rand.Rand
	Over bool // the attack has ended, or the victim has given up
	Done bool // the victim has ended
	errs []error
	h    *Hostility
}

// Hostility is a layer and the attack on it.
type Hostility struct {
	Open       layer.Open
	Attack     func(f *Foe, c layer.Config) error // runs the second rank; it sets Over
	Check      func(l layer.Layer) error          // checks the victim at the end; may be nil
	MaxControl int                                // the longest control message that may reach the victim
}

// FoeHeap is the length of a heap in a test with a hostile rank.
const FoeHeap = 128 << 10

// Hostile makes the first of two ranks get, put, store and call, while the second one attacks. The
// first rank may end with an error that names the second, or by its own deadline. It must survive,
// and may write only to its heap and to the destinations of its own operations.
func Hostile(t *testing.T, seeds Each, h *Hostility) {
	seeds(t, 40, func(seed uint64) error {
		f := &Foe{World: sim.New(sim.Options{Seed: seed, Limit: 20 * time.Minute}), RNG: rand.New(rand.NewPCG(seed, 5)), h: h}
		attack := func(c layer.Config) error { return h.Attack(f, c) }
		for me, fn := range []func(c layer.Config) error{f.victim, attack} {
			station := f.Station(fmt.Sprint("rank ", me))
			f.Go(station.String(), func() {
				if err := f.rank(me, station, fn); err != nil {
					f.errs = append(f.errs, fmt.Errorf("rank %d: %w", me, err))
				}
			})
		}
		err := f.Run()
		return errors.Join(append(f.errs, err)...)
	})
}

func (f *Foe) rank(me int, station *sim.Station, fn func(c layer.Config) error) error {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	m, err := job.Open(bg, &job.Config{Job: "hostile", Rank: me, Size: 2, NIC: nic}, job.Program{Name: "hostile", Version: 1})
	if err != nil {
		return err
	}
	defer m.Fail(errors.New("the test is over"))
	watch := layer.NewWatch(nic, m, time.Minute)
	defer watch.End()
	return fn(layer.Config{Member: m, NIC: nic, Rank: me, Procs: 2, HeapSize: FoeHeap, Watch: watch, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler), Handler: idle{}})
}

// idle is the upper side of a rank that serves no other rank.
type idle struct{}

func (idle) Call(int, uint32, []byte, []byte) int { return 0 }
func (idle) Control(int, []byte)                  {}

// bounds is the victim's upper side. It checks the guarantees of a layer.
type bounds struct {
	err        error
	maxControl int
}

func (b *bounds) Call(from int, _ uint32, args, result []byte) int {
	if from != 1 || len(args) > layer.MaxCall || len(result) < layer.MaxCall {
		b.err = fmt.Errorf("a call of rank %d with %d bytes, and room for %d", from, len(args), len(result))
	}
	return copy(result, args)
}

func (b *bounds) Control(from int, msg []byte) {
	if from != 1 || len(msg) > b.maxControl {
		b.err = fmt.Errorf("a control message of rank %d with %d bytes", from, len(msg))
	}
}

// victim gets, puts, stores and calls, and then checks the result.
func (f *Foe) victim(c layer.Config) error {
	defer func() { f.Done = true }()
	b := &bounds{maxControl: f.h.MaxControl}
	c.Handler = b
	l, err := f.h.Open(bg, c)
	if err != nil {
		return err
	}
	defer l.Close()
	guarded := bytes.Repeat([]byte{0xEE}, 20_000)
	if err := f.ask(l, c, guarded[100:][:10_000:10_000]); err != nil {
		return err
	}
	if !bytes.Equal(guarded[:100], guarded[15_000:][:100]) || !bytes.Equal(guarded[10_100:], bytes.Repeat([]byte{0xEE}, len(guarded)-10_100)) {
		return errors.New("memory beside the destination of gets has changed")
	}
	if f.h.Check != nil {
		if err := f.h.Check(l); err != nil {
			return err
		}
	}
	return b.err
}

// ask sends requests to the hostile rank until the attack is over.
func (f *Foe) ask(l layer.Layer, c layer.Config, dst []byte) error {
	for i := 0; !f.Over; i++ {
		for _, ask := range []func() error{
			func() error { return l.Get(bg, 1, dst[:1+i*37%len(dst)], 4096) },
			func() error { return l.Put(bg, 1, 4096, dst[:1+i*53%len(dst)]) },
			func() error { return l.Store(bg, 1, 4096, dst[:8]) },
			func() error { return l.Call(bg, 1, 1, dst[:5], dst[:layer.MaxCall]) },
			l.Poll,
			func() error { return l.Wait(c.Watch.Slice()) },
		} {
			err := ask()
			if errors.Is(err, job.ErrRankFailed) || errors.Is(err, layer.ErrWaited) { // this ends a program
				f.Over = true
				break
			}
			if err != nil {
				return err
			}
			if n := l.Counters().Outstanding; n < 0 || n > 2000 {
				return fmt.Errorf("%d operations are outstanding", n)
			}
		}
	}
	return nil
}
