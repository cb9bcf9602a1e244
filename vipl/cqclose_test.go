package vipl_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// heap is idle VIs that share a completion queue. What is posted on one's send queue
// is flushed at once, so that each post is an entry.
type heap struct {
	n  *vipl.NIC
	cq *vipl.CQ
}

func newHeap(t testing.TB, entries int) *heap {
	t.Helper()
	link, _ := memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	cq, err := n.CreateCQ(entries)
	if err != nil {
		t.Fatal(err)
	}
	return &heap{n, cq}
}

// vi adds a VI, of which entries are in the queue.
func (h *heap) vi(t testing.TB, entries int) *vipl.VI {
	t.Helper()
	v, err := h.n.CreateVI(nil, h.cq, h.cq)
	if err != nil {
		t.Fatal(err)
	}
	h.flush(t, v, entries)
	return v
}

func (h *heap) flush(t testing.TB, v *vipl.VI, entries int) {
	t.Helper()
	for range entries {
		if err := v.PostSend(&vipl.Descriptor{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCloseManyVIs closes the VIs of one queue, which holds entries of all of them,
// in several orders. When entries leave the ring for a VI that closes, all that are
// in the ring are gone through; so their number is how many steps it takes. In all it
// must be in proportion to the entries, and not to their square.
func TestCloseManyVIs(t *testing.T) {
	const vis, each = 500, 8
	for name, order := range map[string]func(list []*vipl.VI){
		"OldestFirst": func([]*vipl.VI) {},
		"NewestFirst": func(list []*vipl.VI) { slices.Reverse(list) },
		"AnyOrder": func(list []*vipl.VI) {
			rand.New(rand.NewPCG(1, 1)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeap(t, vis*each)
			var list []*vipl.VI
			for range vis {
				list = append(list, h.vi(t, each))
			}
			order(list)
			steps := 0
			for i, v := range list {
				before := h.cq.InRing()
				v.Close()
				if h.cq.InRing() != before {
					steps += before
				}
				if used := h.cq.Query().Used; used != (vis-i-1)*each {
					t.Fatalf("%d VIs are left, and %d entries", vis-i-1, used)
				}
			}
			if limit := 4 * vis * each; steps > limit {
				t.Errorf("%d steps to close %d VIs with %d entries, want %d at the most", steps, vis, vis*each, limit)
			}
			if n := h.cq.InRing(); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// TestCloseFullQueue: what closed VIs have left takes no room from others, in a queue
// that is kept nearly full.
func TestCloseFullQueue(t *testing.T) {
	const size = 64
	h := newHeap(t, size)
	stay := h.vi(t, size-1)
	steps := 0
	for range 1000 {
		before := h.cq.InRing()
		h.vi(t, 1).Close()
		if h.cq.InRing() != before+1 {
			steps += before
		}
	}
	if n := h.n.Snapshot().CQOverruns; n != 0 {
		t.Errorf("%d entries were lost", n)
	}
	if limit := 4 * 1000; steps > limit {
		t.Errorf("%d steps for 1000 entries, want %d at the most", steps, limit)
	}
	for range size - 1 {
		if v, recv, err := h.cq.Done(); v != stay || recv || err != nil {
			t.Fatalf("took %v, %v, %v", v, recv, err)
		}
	}
	if v, _, err := h.cq.Done(); err != vipl.ErrNotDone {
		t.Errorf("an entry of a closed VI was told: %v, %v", v, err)
	}
}

// TestCloseAnyTime closes VIs while entries come and go and the queue changes its
// size: the entries of the others stay, in order, and no closed VI is told.
func TestCloseAnyTime(t *testing.T) {
	seeds(t, 200, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newHeap(t, 1+rng.IntN(12))
		var vis, want []*vipl.VI
		lost := uint64(0)
		for range 300 {
			switch rng.IntN(7) {
			case 0:
				vis = append(vis, h.vi(t, 0))
			case 1, 2, 3:
				if len(vis) == 0 {
					continue
				}
				v := vis[rng.IntN(len(vis))]
				if h.flush(t, v, 1); len(want) < h.cq.Query().Entries {
					want = append(want, v)
				} else {
					lost++
				}
			case 4:
				v, _, err := h.cq.Done()
				if len(want) == 0 && err == vipl.ErrNotDone {
					continue
				}
				if len(want) == 0 || v != want[0] {
					return fmt.Errorf("took %p (%v) and not the oldest of %d entries", v, err, len(want))
				}
				v.SendDone()
				want = want[1:]
			case 5:
				if len(vis) == 0 {
					continue
				}
				i := rng.IntN(len(vis))
				v := vis[i]
				v.Close()
				vis = slices.Delete(vis, i, i+1)
				want = slices.DeleteFunc(want, func(w *vipl.VI) bool { return w == v })
			case 6:
				if err := h.cq.Resize(max(len(want), 1+rng.IntN(12))); err != nil {
					return err
				}
			}
			if used := h.cq.Query().Used; used != len(want) {
				return fmt.Errorf("the queue holds %d entries, want %d", used, len(want))
			}
		}
		if n := h.n.Snapshot().CQOverruns; n != lost {
			return fmt.Errorf("%d entries were lost, want %d", n, lost)
		}
		return nil
	})
}
