package splitc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLinks: primitives, bulk operations and collectives between two ranks, over every
// layer, on every kind of link, and on one on which frames are lost, doubled, overtaken
// and damaged.
func TestLinks(t *testing.T) {
	for _, l := range viplinks.Real {
		t.Run(l.Name, func(t *testing.T) {
			seed := seeding.First()
			t.Logf("replay with -splitc.seed=%d", seed)
			nics := linkNICs(t, l.Driver, l.Faults(seed))
			for _, layer := range splitc.Layers() {
				if err := overLink(nics, fmt.Sprint(t.Name(), layer, os.Getpid()), layer, l.Driver == "shm", seed); err != nil {
					t.Fatalf("layer %s: %v", layer, err)
				}
			}
		})
	}
}

// linkNICs opens two NICs on the ends of a wire of the package's own.
func linkNICs(t *testing.T, driver string, wrap func(side int, l transport.Link) transport.Link) [2]*vipl.NIC {
	t.Helper()
	return viplinks.Wire(t, 61, driver, wrap)
}

// overLink runs a program of two ranks, of one host or of two: some of each kind of operation, and
// what a model of the seed does.
func overLink(nics [2]*vipl.NIC, name, layer string, near bool, seed uint64) error {
	m := modelOf(rand.New(rand.NewPCG(seed, 99)), 2)
	done := make(chan error, len(nics))
	for rank, nic := range nics {
		go func() {
			w, err := splitc.Start(bg, &splitc.Config{Config: job.Config{Job: name, Rank: rank, Size: 2, NIC: nic, PeerTimeout: 30 * time.Second}, Layer: layer, HeapSize: 1 << 20})
			if err == nil {
				err = errors.Join(primitives(w), bulks(w), others(w), m.run(w))
				for range 64 { // Snapshot shows every 64th
					err = errors.Join(err, w.Poll())
				}
				if direct := w.Snapshot().Below.Direct > 0; err == nil && direct != (near && layer == "shm") {
					err = fmt.Errorf("stores within the host: %t", direct)
				}
				if err == nil {
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

// others does what primitives and bulks leave out: a strided put and get, a counter that
// both ranks add to, and a scan.
func others(w *splitc.World) error {
	const blocks, every, adds = 30, 3, 50
	a, err := splitc.AllSpreadMalloc[int64](bg, w, 2, blocks*every+1)
	if err != nil {
		return err
	}
	me, other := w.MyProc(), 1-w.MyProc()
	src, got := make([]int64, blocks), make([]int64, blocks)
	for i := range src {
		src[i] = int64(1000*me + i + 1)
	}
	there := splitc.Stride{Blocks: blocks, Len: 1, Local: 1, Remote: every}
	if err := splitc.StridedWrite(bg, w, a.On(other).Add(1), src, there); err != nil {
		return err
	}
	if err := splitc.StridedRead(bg, w, got, a.On(other).Add(1), there); err != nil || !slices.Equal(got, src) {
		return fmt.Errorf("blocks read back are %d, want %d: %w", got, src, err)
	}
	if err := w.Barrier(bg); err != nil {
		return err
	}
	for i, v := range a.Local(w)[1:] {
		want := int64(0)
		if i%every == 0 {
			want = int64(1000*other + i/every + 1)
		}
		if v != want {
			return fmt.Errorf("element %d is %d after strided writes, want %d", i+1, v, want)
		}
	}
	last := int64(-1)
	for range adds {
		old, err := splitc.FetchAdd(bg, w, a.On(0), 1)
		if err != nil || old <= last {
			return fmt.Errorf("a FetchAdd has found %d after %d: %w", old, last, err)
		}
		last = old
	}
	if err := w.Barrier(bg); err != nil {
		return err
	}
	if n, err := splitc.Read(bg, w, a.On(0)); err != nil || n != 2*adds {
		return fmt.Errorf("the counter is at %d after %d FetchAdds: %w", n, 2*adds, err)
	}
	sum, err := splitc.Scan(bg, w, last+1, splitc.Max[int64]())
	if err == nil && me == 1 && sum != 2*adds {
		err = fmt.Errorf("a scan gives %d as the highest count, want %d", sum, 2*adds)
	}
	return err
}

// bulks moves a long array there, back and on, and sums it.
func bulks(w *splitc.World) error {
	const n = 40_000
	a, err := splitc.AllSpreadMalloc[int32](bg, w, 2, 2*n)
	if err != nil {
		return err
	}
	other := 1 - w.MyProc()
	src, got := make([]int32, n), make([]int32, n)
	for i := range src {
		src[i] = int32(i*(w.MyProc()+1) + 1)
	}
	if err := splitc.BulkWrite(bg, w, a.On(other), src); err != nil {
		return err
	}
	if err := splitc.BulkRead(bg, w, got, a.On(other)); err != nil {
		return err
	}
	if err := splitc.BulkStore(bg, w, a.On(other).Add(n), got); err != nil {
		return err
	}
	if err := w.AllStoreSync(bg); err != nil {
		return err
	}
	sum := int64(0)
	for i, v := range a.Local(w)[n:] {
		if want := int32(i*(other+1) + 1); v != want {
			return fmt.Errorf("element %d is %d, want %d", i, v, want)
		}
		sum += int64(v)
	}
	all, err := splitc.ReduceToAll(bg, w, sum, splitc.Add[int64]())
	if want := int64(3*n/2*(n-1) + 2*n); err == nil && all != want {
		return fmt.Errorf("the ranks add up to %d, want %d", all, want)
	}
	return err
}

// TestCards: a program whose active messages go over cards of an emulated Myrinet, those of
// shm between its hosts. Layers that have none refuse a card.
func TestCards(t *testing.T) {
	for _, layer := range []string{"am", "shm", "rdma"} {
		p := newProgram(4, sim.Options{}, splitc.Config{Layer: layer})
		cards, err := layertest.Cards(p.World, p.cfg.Size)
		check(t, err)
		for rank, card := range cards {
			p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				cfg := p.cfg
				cfg.NIC, cfg.Rank, cfg.Card = nic, rank, card
				w, err := splitc.Start(bg, &cfg)
				if layer == "rdma" && errors.Is(err, splitc.ErrArgument) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := primitives(w); err != nil {
					w.Fail(err)
					return err
				}
				return w.Exit(bg)
			})
		}
		if err := p.run(); err != nil {
			t.Errorf("layer %s: %v", layer, err)
		}
		if layer != "rdma" && cards[0].Snapshot().Stats.Sent == 0 {
			t.Errorf("layer %s: the card has sent nothing", layer)
		}
	}
}
