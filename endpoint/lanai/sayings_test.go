package lanai

import (
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// TestSayings: whatever waits and holds entries, a saying that may have an entry gets one, no other does, sayings of
// a user to a station stay in order, and users take turns.
func TestSayings(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w sayings
		var p posting
		p.done = 1<<sendEntries - 1 // no entry is posted
		p.posted = p.done
		waits := map[[2]int][]*saying{} // by user and station
		users, stations := 1+rng.IntN(4), 1+rng.IntN(40)
		station := func(n int) ethertype.MAC { return ethertype.MAC{2, 0, 0, 0, 0, byte(n)} }
		name := func(u int) user { return []user{ours, nobody, 7, 8}[u] }
		held := func(u, to int) (ofUser, ofStation int) {
			for _, r := range p.refs[:sendEntries] {
				if s := r.say; s != nil {
					if s.user == name(u) {
						ofUser++
					}
					if s.to.mac == station(to) {
						ofStation++
					}
				}
			}
			return ofUser, ofStation
		}
		for range 3000 {
			switch i := rng.IntN(sendEntries); {
			case rng.IntN(3) > 0:
				key := [2]int{rng.IntN(users), rng.IntN(stations)}
				s := &saying{user: name(key[0]), to: peerName{mac: station(key[1])}, back: len(waits[key])}
				waits[key] = append(waits[key], s)
				w.push(s)
			case p.refs[i].say != nil && rng.IntN(2) == 0:
				p.refs[i] = ref{}
				p.posted ^= 1 << i
			case p.refs[i].say == nil:
				free, may := p.frees(), 0
				for key := range waits {
					if ofUser, ofStation := held(key[0], key[1]); ofStation < free && (ofUser < free || name(key[0]) == ours) {
						may++
					}
				}
				s := w.pop(&p)
				if (s != nil) != (may > 0) {
					t.Fatalf("seed %d: got %v, and %d stations of users may have an entry", seed, s, may)
				}
				if s == nil {
					continue
				}
				for key, list := range waits {
					if list[0] != s {
						continue
					}
					if ofUser, ofStation := held(key[0], key[1]); ofStation >= free || ofUser >= free && s.user != ours {
						t.Fatalf("seed %d: %d free, the user has %d and the station %d", seed, free, ofUser, ofStation)
					}
					if waits[key] = list[1:]; len(list) == 1 {
						delete(waits, key)
					}
					may = -1
				}
				if may != -1 {
					t.Fatalf("seed %d: a saying that is not the first of its user to its station", seed)
				}
				p.refs[i] = ref{what: refControl, say: s}
				p.posted ^= 1 << i
			}
		}
		n := 0
		for _, list := range waits {
			n += len(list)
		}
		if w.n != n {
			t.Fatalf("seed %d: %d wait, want %d", seed, w.n, n)
		}
		w.keep(func(s *saying) bool { return s.user == nobody })
		if n = 0; users > 1 {
			for key, list := range waits {
				if name(key[0]) == nobody {
					n += len(list)
				}
			}
		}
		if w.n != n {
			t.Fatalf("seed %d: %d are kept, want %d", seed, w.n, n)
		}
	}
	var w sayings
	var p posting
	for range 1000 {
		w.push(&saying{user: 7, to: peerName{mac: ethertype.MAC{2}}})
	}
	w.push(&saying{user: 8, to: peerName{mac: ethertype.MAC{2}}})
	if a, b := w.pop(&p).user, w.pop(&p).user; a != 7 || b != 8 {
		t.Errorf("the first two turns are of users %d and %d", a, b)
	}
}
