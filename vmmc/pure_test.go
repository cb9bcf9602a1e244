package vmmc

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestExtent: the writes of a message are all of it, in order, each of at most maxPieces pieces. No word is
// in two of them, except of pieces that are shorter than a word together.
func TestExtent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.Uint64Range(0, 64).Draw(t, "addr")
		var data [][]byte
		n := 0
		for _, size := range rapid.SliceOfN(rapid.IntRange(0, 40), 0, 60).Draw(t, "pieces") {
			data = append(data, make([]byte, size))
			n += size
		}
		done, count := 0, 0
		for ; done < n; count++ {
			size := extent(addr, data, done, n-done)
			if size <= 0 || size > n-done {
				t.Fatalf("%d of the %d bytes behind %d", size, n-done, done)
			}
			used, from := 0, 0
			for _, b := range data {
				if from += len(b); min(from, done+size) > max(from-len(b), done) {
					used++
				}
			}
			done += size
			if end := (addr + uint64(done)) % orderWord; used > maxPieces || end != 0 && done < n && size > int(end) {
				t.Fatalf("a write of %d bytes in %d pieces ends at %d", size, used, addr+uint64(done))
			}
		}
		if count != pieces(addr, data, n) {
			t.Fatalf("%d writes, and pieces returns %d", count, pieces(addr, data, n))
		}
	})
}

// TestProxySpace: an address is found if it lies in a range that was added and not removed,
// with all the bytes behind it; no address is given twice, and none borders on another
// range.
func TestProxySpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newProxySpace(rapid.Uint64().Draw(t, "seed"))
		type held struct {
			at   ProxyAddr
			size uint64
			imp  *Import
		}
		var all []held
		var end ProxyAddr
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			if len(all) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				why := []error{ErrUnexported, ErrPeer, errUnimported}[rapid.IntRange(0, 2).Draw(t, "why")]
				s.remove(all[i].at, why)
				for _, off := range []uint64{0, all[i].size} {
					if _, _, err := s.resolve(all[i].at+ProxyAddr(off), 0); !errors.Is(err, why) || errors.Is(err, ErrProxy) {
						t.Fatalf("a stale address: %v, want %v", err, why)
					}
				}
				if err := second(s.resolve(all[i].at+ProxyAddr(all[i].size)+1, 0)); !errors.Is(err, ErrProxy) {
					t.Fatalf("behind a stale import: %v", err)
				}
				all = append(all[:i], all[i+1:]...)
				continue
			}
			h := held{size: rapid.Uint64Range(0, 3*PageSize).Draw(t, "size"), imp: new(Import)}
			if h.at = s.allocate(h.size, h.imp); h.at%PageSize != 0 || end != 0 && h.at < end+1 {
				t.Fatalf("%v behind %v", h.at, end)
			}
			end = h.at + ProxyAddr(h.size)
			all = append(all, h)
		}
		for _, h := range all {
			off := rapid.Uint64Range(0, h.size).Draw(t, "offset")
			imp, at, err := s.resolve(h.at+ProxyAddr(off), int(h.size-off))
			if imp != h.imp || at != off || err != nil {
				t.Fatalf("resolve: %v at %d: %v", imp, at, err)
			}
			for _, wrong := range []error{
				second(s.resolve(h.at+ProxyAddr(off), int(h.size-off)+1)), second(s.resolve(h.at-1, 1)), second(s.resolve(h.at+ProxyAddr(h.size)+1, 0)),
			} {
				if !errors.Is(wrong, ErrProxy) {
					t.Fatalf("an address outside: %v", wrong)
				}
			}
		}
	})
}

// TestEndedImports: the imports that have ended last keep their errors, and of no others is
// anything kept.
func TestEndedImports(t *testing.T) {
	s := newProxySpace(1)
	var all []ProxyAddr
	for range 3 * mostEnded {
		at := s.allocate(1, new(Import))
		s.remove(at, ErrPeer)
		all = append(all, at)
	}
	for i, at := range all {
		want := ErrProxy
		if i >= len(all)-mostEnded {
			want = ErrPeer
		}
		if err := second(s.resolve(at, 1)); !errors.Is(err, want) {
			t.Fatalf("import %d of %d: %v, want %v", i, len(all), err, want)
		}
	}
	if len(s.ended) != mostEnded {
		t.Errorf("%d errors are kept, want %d", len(s.ended), mostEnded)
	}
}

func second(_ *Import, _ uint64, err error) error { return err }

// TestNoteQueue: SBL's rules of blocking.
func TestNoteQueue(t *testing.T) {
	var q noteQueue[int]
	if err := q.unblock(); !errors.Is(err, errNotBlocked) {
		t.Errorf("unblock of nothing: %v", err)
	}
	q.block()
	q.block()
	q.push(1)
	q.push(2)
	q.push(3)
	if q.ready() || q.unblock() != nil || q.ready() {
		t.Error("told while blocked")
	}
	if q.unblock() != nil || !q.ready() || q.begin() != 1 || q.ready() {
		t.Error("the first is not told, or others while its handler runs")
	}
	if err := q.unblock(); !errors.Is(err, ErrNotInHandler) {
		t.Errorf("unblock in a handler: %v", err)
	}
	q.block()
	q.end()
	if q.ready() || q.unblock() != nil || !q.ready() {
		t.Error("a handler's own block is forgotten")
	}
	q.drop(func(n int) bool { return n == 2 })
	if q.len() != 1 || q.begin() != 3 || q.len() != 0 {
		t.Error("dropped others")
	}
	q.end()
	q.push(0)
	if n := testing.AllocsPerRun(1, func() { // it is never empty, and does not grow
		for i := range 10000 {
			q.push(i)
			q.begin()
			q.end()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPolicy: who is in a list may import.
func TestPolicy(t *testing.T) {
	a, b := ethertype.MAC{2, 1}, ethertype.MAC{2, 2}
	for _, c := range []struct {
		p      Policy
		who    Peer
		proven bool
		want   bool
	}{
		{Policy{}, Peer{a, 1}, true, false},
		{Everybody, Peer{a, 1}, false, true},
		{Policy{Nodes: []ethertype.MAC{b}}, Peer{a, 1}, true, false},
		{Policy{Nodes: []ethertype.MAC{b}}, Peer{b, 1}, false, true},
		{Policy{Processes: []Peer{{a, 1}}}, Peer{b, 1}, false, false},
		{Policy{Processes: []Peer{{ethertype.MAC{}, 1}}}, Peer{b, 1}, false, true},
		{Policy{Users: []uint32{5}}, Peer{b, 1}, false, false},
		{Policy{Users: []uint32{5}}, Peer{b, 1}, true, true},
		{Policy{Users: []uint32{6}}, Peer{b, 1}, true, false},
	} {
		if got := c.p.allows(c.who, 5, c.proven); got != c.want {
			t.Errorf("%+v allows %v, proven %v: %v", c.p, c.who, c.proven, got)
		}
	}
}
