package mplite

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var matchSeed = flag.Uint64("mplite.matchseed", 0, "run the matching test under this seed only")

// oracle is the matching rules said as simply as possible: two lists, oldest
// first, searched from the front.
type oracle struct {
	recvs []envelope
	ids   []int
	msgs  []envelope
	msgID []int
}

// post returns the id of the message that a receive takes, or -1.
func (o *oracle) post(e envelope, id int) int {
	if i := o.peek(e); i >= 0 {
		return o.take(i)
	}
	o.recvs, o.ids = append(o.recvs, e), append(o.ids, id)
	return -1
}

// take removes message i and returns its id.
func (o *oracle) take(i int) int {
	got := o.msgID[i]
	o.msgs, o.msgID = slices.Delete(o.msgs, i, i+1), slices.Delete(o.msgID, i, i+1)
	return got
}

func (o *oracle) peek(e envelope) int {
	return slices.IndexFunc(o.msgs, func(m envelope) bool { return fits(e, m) })
}

// arrive returns the id of the receive that takes a message, or -1.
func (o *oracle) arrive(m envelope, id int) int {
	i := slices.IndexFunc(o.recvs, func(e envelope) bool { return fits(e, m) })
	if i < 0 {
		o.msgs, o.msgID = append(o.msgs, m), append(o.msgID, id)
		return -1
	}
	got := o.ids[i]
	o.cancel(got)
	return got
}

func (o *oracle) cancel(id int) {
	i := slices.Index(o.ids, id)
	o.recvs, o.ids = slices.Delete(o.recvs, i, i+1), slices.Delete(o.ids, i, i+1)
}

// probe returns the message that the matcher has for a probe, and the id of the
// one that it should have, or -1. A matched probe takes both.
func (o *oracle) probe(m *matcher, e envelope, matched bool) (in *inbound, want int) {
	in = m.peek(e)
	if in != nil && matched {
		m.claim(in)
	}
	i := o.peek(e)
	switch {
	case i < 0:
		return in, -1
	case matched:
		return in, o.take(i)
	}
	return in, o.msgID[i]
}

func fits(e, m envelope) bool {
	return e.context == m.context && (e.src == AnySource || e.src == m.src) && (e.tag == AnyTag || e.tag == m.tag)
}

// compare runs the operations that ops encodes, two bytes each, on the matcher
// and the oracle.
func compare(ops []byte) error {
	const numRanks = 3
	var m matcher
	m.init(numRanks)
	o := &oracle{}
	recvs, msgs := map[int]*request{}, map[*inbound]int{}
	posted := map[*request]int{}
	var claimed []*inbound
	for id := 0; len(ops) >= 2; id, ops = id+1, ops[2:] {
		what, arg := ops[0]%8, int(ops[1])
		e := envelope{context: uint32(arg & 1), src: int32(arg >> 1 % numRanks), tag: int32(arg >> 3 & 3)}
		got, want := -1, -1
		switch {
		case what < 3: // a receive
			if arg>>5&1 == 1 {
				e.src = AnySource
			}
			if arg>>6&1 == 1 {
				e.tag = AnyTag
			}
			want = o.post(e, id)
			r := &request{env: e}
			if in := m.post(r); in != nil {
				got = msgs[in]
			} else {
				recvs[id], posted[r] = r, id
			}
		case what < 6: // a message
			want = o.arrive(e, id)
			if r := m.arrive(&e); r != nil {
				got = posted[r]
				delete(recvs, got)
			} else {
				in := &inbound{env: e}
				msgs[in] = id
				m.enqueue(in)
			}
		case what == 6 && len(o.ids) > 0: // a receive is cancelled
			victim := o.ids[arg%len(o.ids)]
			o.cancel(victim)
			m.removeRecv(recvs[victim])
			delete(recvs, victim)
		default: // a probe, matched or not
			var in *inbound
			if in, want = o.probe(&m, e, arg>>7 == 1); in != nil {
				got = msgs[in]
				if arg>>7 == 1 {
					claimed = append(claimed, in)
				}
			}
		}
		if last := len(claimed) - 1; last >= 0 && arg>>5&3 == 3 {
			m.unclaim(claimed[last])
			claimed = claimed[:last]
		}
		if (m.claimed.head == nil) != (len(claimed) == 0) {
			return fmt.Errorf("operation %d: %d messages are claimed, and the list of them is wrong", id, len(claimed))
		}
		if got != want {
			return fmt.Errorf("operation %d (%d, %+v): matched %d, want %d", id, what, e, got, want)
		}
		if m.waiting != len(o.msgs) {
			return fmt.Errorf("operation %d: %d messages wait, want %d", id, m.waiting, len(o.msgs))
		}
	}
	return nil
}

func TestMatchingAgainstOracle(t *testing.T) {
	first, n := uint64(1), uint64(300)
	if *matchSeed != 0 {
		first, n = *matchSeed, 1
	}
	for seed := first; seed < first+n; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 2*rng.IntN(600))
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if err := compare(ops); err != nil {
			t.Fatalf("%v\nreplay: go test ./mplite -run '%s$' -mplite.matchseed=%d", err, t.Name(), seed)
		}
	}
}

func FuzzMatching(f *testing.F) {
	f.Add([]byte{0, 0, 3, 0, 3, 32, 0, 96, 6, 0, 7, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if err := compare(ops); err != nil {
			t.Fatal(err)
		}
	})
}
