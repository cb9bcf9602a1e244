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
	f.Add(3, whole(kindSame, call{code: codeScan, seq: 1, inOrder: true}, nil))
	f.Add(2, whole(kindRankUp, call{code: codeScan, seq: 1, inOrder: true}, make([]byte, 8)))
	f.Add(0, whole(kindRankDown, call{code: codeScan, seq: 1, inOrder: true}, nil))
	f.Add(2, whole(kindLeaving, call{}, nil))
	f.Add(0, whole(kindMismatch, call{}, []byte("\x01\x00\x00\x00\x02\x00\x00\x00\x07barrier\x1b[2Jscan")))
	f.Fuzz(func(t *testing.T, from int, msg []byte) {
		const procs = 7
		w := &World{me: 1, procs: procs, tree: newTree(1, procs, []int{0, 1, 0, 1, 0, 1, 0})}
		from = int(uint(from) % procs)
		for range 2 { // the second one finds the places full
			upper{w}.Control(from, msg)
		}
		places := append([]*place{w.tree.parent, w.tree.hosts.parent}, w.tree.kids...)
		for _, p := range append(places, w.tree.hosts.kids...) {
			if p == nil {
				continue
			}
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

// TestTree: in each tree every process but 0 has one parent, whose child it is. In the tree of
// ranks what is below a process are those that follow it, whatever the hosts. In that of hosts
// the processes of a host are below its first one, however they are spread, and only these
// first ones have to do with other hosts.
func TestTree(t *testing.T) {
	hosts := map[string]func(proc int) int{
		"none": nil, "all on one": func(int) int { return 7 }, "pairs": func(proc int) int { return proc / 2 },
		"round": func(proc int) int { return proc % 3 }, "mixed": func(proc int) int { return proc / 5 % 3 * (proc % 7 / 4) },
	}
	for name, host := range hosts {
		for procs := 1; procs < 70; procs++ {
			var on []int
			for proc := 0; host != nil && proc < procs; proc++ {
				on = append(on, host(proc))
			}
			ranks, shared := make([]*branch, procs), make([]*branch, procs)
			for me := range procs {
				tree := newTree(me, procs, on)
				ranks[me], shared[me] = tree.of(call{inOrder: true}), tree.of(call{})
			}
			last, why := below(ranks, 0)
			if why == "" && last != procs-1 {
				why = fmt.Sprintf("the last process below 0 is %d", last)
			}
			if why == "" {
				why = hostsAreWrong(shared, on)
			}
			if why != "" {
				t.Errorf("hosts %s, %d processes: %s", name, procs, why)
			}
		}
	}
}

// below returns the last process below one, or what is wrong.
func below(tree []*branch, me int) (last int, why string) {
	if len(tree[me].kids) > 2 {
		return me, fmt.Sprintf("%d has %d children", me, len(tree[me].kids))
	}
	last = me
	for _, k := range tree[me].kids {
		if k.rank != last+1 || tree[k.rank].parent == nil || tree[k.rank].parent.rank != me {
			return last, fmt.Sprintf("%d follows %d as a child of %d", k.rank, last, me)
		}
		if last, why = below(tree, k.rank); why != "" {
			return last, why
		}
	}
	return last, ""
}

// hostsAreWrong says what is wrong with the tree of hosts, if anything is.
func hostsAreWrong(tree []*branch, on []int) string {
	first := map[int]int{} // process of each host
	for proc := range tree {
		host := proc
		if on != nil {
			host = on[proc]
		}
		if _, known := first[host]; !known {
			first[host] = proc
		} else if p := tree[proc].parent; p == nil || p.rank != first[host] || len(tree[proc].kids) > 0 {
			return fmt.Sprintf("%d is on the host of %d, and not below it alone", proc, first[host])
		}
	}
	seen, under := 1, []int{0}
	for ; len(under) > 0; under = under[1:] {
		me, far := under[0], 0
		for _, k := range tree[me].kids {
			if tree[k.rank].parent == nil || tree[k.rank].parent.rank != me {
				return fmt.Sprintf("%d is a child of %d, and does not know it", k.rank, me)
			}
			if on == nil || on[k.rank] != on[me] {
				far++
			}
			seen++
			under = append(under, k.rank)
		}
		if far > 2 {
			return fmt.Sprintf("%d has %d children on other hosts", me, far)
		}
	}
	if seen != len(tree) || tree[0].parent != nil {
		return fmt.Sprintf("%d processes are in the tree", seen)
	}
	return ""
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
