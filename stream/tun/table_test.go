package tun

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(i)}) }

// TestTable: packets wait during the search for their address, up to a limit. After a search
// without a result, there is no new search for some time.
func TestTable(t *testing.T) {
	tab := newTable()
	a := addr(1)
	const most = 64
	packet := func() *buffer { return &buffer{mem: make([]byte, maxWait/most)} }
	for i := range most {
		want := toWait
		if i == 0 {
			want = toSearch
		}
		if _, v := tab.route(0, a, packet()); v != want {
			t.Fatalf("packet %d: %d, want %d", i, v, want)
		}
	}
	if _, v := tab.route(0, a, packet()); v != toDrop {
		t.Fatalf("one more than may wait: %d", v)
	}
	if wait, _ := tab.failed(10, a); len(wait) != most {
		t.Fatalf("%d packets come back", len(wait))
	}
	if _, v := tab.route(10+quietTime-1, a, &buffer{}); v != toNobody {
		t.Fatalf("soon after a search in vain: %d", v)
	}
	if _, v := tab.route(10+quietTime, a, &buffer{}); v != toSearch {
		t.Fatalf("a while after a search in vain: %d", v)
	}
	p := new(peer)
	if wait, before := tab.found(a, p); len(wait) != 1 || before != nil {
		t.Fatal(wait, before)
	}
	if got, v := tab.route(20, a, &buffer{}); v != toPeer || got != p {
		t.Fatal(got, v)
	}
	tab.gone(p)
	if _, v := tab.route(20, a, &buffer{}); v != toSearch {
		t.Fatalf("after the neighbour has gone: %d", v)
	}
}

// TestTableModel applies random events to a table. The table returns each waiting packet exactly
// once, and the number of searches equals the number of addresses being searched.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, now := newTable(), int64(0)
		waiting, searching := map[*buffer]bool{}, map[netip.Addr]bool{}
		peers := []*peer{{}, {}, {}}
		back := func(wait []*buffer) {
			for _, b := range wait {
				if !waiting[b] {
					t.Fatal("a packet comes back that does not wait")
				}
				delete(waiting, b)
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, quietTime).Draw(t, "time")
			a := addr(rapid.IntRange(1, 80).Draw(t, "address"))
			p := rapid.SampledFrom(peers).Draw(t, "peer")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				b := new(buffer)
				_, v := tab.route(now, a, b)
				waiting[b] = v == toSearch || v == toWait
				if !waiting[b] {
					delete(waiting, b)
				}
				if v == toSearch {
					searching[a] = true
				}
			case 2:
				wait, _ := tab.found(a, p)
				back(wait)
				delete(searching, a)
			case 3:
				wait, _ := tab.failed(now, a)
				back(wait)
				delete(searching, a)
			case 4:
				tab.gone(p)
				for _, addrs := range tab.peers() {
					_ = addrs
				}
				if slices.Contains(slices.Collect(keys(tab.peers())), p) {
					t.Fatal("a neighbour that has gone has an address")
				}
			}
			if tab.searches != len(searching) || tab.searches > maxSearches {
				t.Fatalf("%d searches are counted, and %d under way", tab.searches, len(searching))
			}
		}
	})
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
