package splitc

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// FuzzControl: control messages of any bytes from any rank are taken, or counted as
// strays, and what they say is safe to show.
func FuzzControl(f *testing.F) {
	whole := func(kind byte, c call, part []byte) []byte {
		b := make([]byte, headSize, headSize+len(part))
		b[0] = kind
		c.put(b[4:])
		return append(b, part...)
	}
	f.Add(0, whole(kindUp, call{code: codeBarrier, seq: 1}, nil))
	f.Add(1, whole(kindUp, call{code: codeReduce, seq: 1, size: 8}, make([]byte, 8)))
	f.Add(3, whole(kindDown, call{code: 200}, make([]byte, layer.MaxControl)))
	f.Add(2, whole(kindLeaving, call{}, nil))
	f.Add(0, whole(kindMismatch, call{}, []byte("\x01\x00\x00\x00\x02\x00\x00\x00\x07barrier\x1b[2Jscan")))
	f.Fuzz(func(t *testing.T, from int, msg []byte) {
		const procs = 7
		w := &World{me: 1, procs: procs, tree: newTree(1, procs, nil)}
		from = int(uint(from) % procs)
		for range 2 { // the second one finds the places full
			upper{w}.Control(from, msg)
		}
		for _, p := range append([]*place{w.tree.parent}, w.tree.kids...) {
			if p.full && (p.rank != from || p.n != len(msg) || p.call().String() == "" || len(p.part()) > maxPart) {
				t.Fatalf("rank %d has said %d bytes, kept %d as rank %d's", from, len(msg), p.n, p.rank)
			}
		}
		if w.tree.left > 1 || w.tree.leaves[w.me] {
			t.Fatalf("%d ranks leave", w.tree.left)
		}
		if m := w.tree.told; m != nil {
			for i, c := range m.Calls {
				if m.Ranks[i] >= procs || printable([]byte(c)) != c {
					t.Fatalf("%q of rank %d", c, m.Ranks[i])
				}
			}
		}
	})
}

// TestTree: each process but 0 has one parent, whose child it is, and what is below a
// process are those that follow it, however they are spread over hosts.
func TestTree(t *testing.T) {
	hosts := map[string]func(proc int) int{
		"none": nil, "all on one": func(int) int { return 7 }, "pairs": func(proc int) int { return proc / 2 },
		"round": func(proc int) int { return proc % 3 }, "mixed": func(proc int) int { return proc / 5 % 3 * (proc % 7 / 4) },
	}
	for name, host := range hosts {
		for procs := 1; procs < 70; procs++ {
			if why := treeIsWrong(procs, host); why != "" {
				t.Errorf("hosts %s, %d processes: %s", name, procs, why)
			}
		}
	}
}

// treeIsWrong says what is wrong with the tree of so many processes, if anything is.
func treeIsWrong(procs int, host func(proc int) int) (why string) {
	var hosts []int
	for proc := 0; host != nil && proc < procs; proc++ {
		hosts = append(hosts, host(proc))
	}
	trees := make([]tree, procs)
	for me := range trees {
		trees[me] = newTree(me, procs, hosts)
	}
	var below func(me int) int // returns the last one
	below = func(me int) int {
		last, far := me, 0
		for _, k := range trees[me].kids {
			if k.rank != last+1 || trees[k.rank].parent == nil || trees[k.rank].parent.rank != me {
				why = fmt.Sprintf("%d follows %d as a child of %d", k.rank, last, me)
				return procs
			}
			if hosts == nil || hosts[k.rank] != hosts[me] || last != me && hosts[last] != hosts[me] {
				far++
			} else if len(trees[k.rank].kids) > 0 {
				why = fmt.Sprintf("%d is not the first of its host, and has children", k.rank)
			}
			if last = below(k.rank); last == procs {
				return procs
			}
		}
		if far > 2 {
			why = fmt.Sprintf("%d has %d children on other hosts", me, far)
		}
		return last
	}
	if last := below(0); why == "" && (last != procs-1 || trees[0].parent != nil) {
		why = fmt.Sprintf("the last below 0 is %d", last)
	}
	return why
}

// TestSpans: what is allocated never overlaps, freed memory is found again, and a lookup
// says whether all of it is within one allocation.
func TestSpans(t *testing.T) {
	s := spans{size: 1 << 20, high: firstStatic}
	var owner []span
	next := uint64(12345)
	for range 3000 {
		next = next*6364136223846793005 + 1442695040888963407
		n := next >> 33 % 9000
		if next>>20%3 == 0 && len(owner) > 0 {
			i := int(next >> 40 % uint64(len(owner)))
			if lo := owner[i].lo; !s.free(lo) || s.free(lo) {
				t.Fatalf("%#x was not freed once", lo)
			}
			owner = slices.Delete(owner, i, i+1)
			continue
		}
		lo, _, ok := s.alloc(n)
		if !ok {
			continue
		}
		for _, o := range owner {
			if lo < o.hi && o.lo < lo+n {
				t.Fatalf("%d bytes at %#x overlap what is from %#x to %#x", n, lo, o.lo, o.hi)
			}
		}
		owner = append(owner, span{lo, lo + n})
		if err := s.check("test", lo, n); err != nil || lo%granule != 0 || lo+n > s.size {
			t.Fatalf("%d bytes at %#x: %v", n, lo, err)
		}
		if s.check("test", lo, n+granule+1) == nil {
			t.Fatalf("%d bytes at %#x are longer than allocated", n+granule+1, lo)
		}
	}
}
