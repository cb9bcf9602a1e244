package asking

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// exporter is the connection and the process of a table of grants: it notes what the table opens,
// shuts, frees, says and reports.
type exporter struct {
	Imports
	provider.Up
	places   []string // by key: "open", "shut", "freed"
	full     bool     // nothing can be opened
	ends     bool     // whatever it says ends the connection
	released map[*provider.Grant]int
	moved    map[*provider.Grant]int
	said     []string
	wrong    error
}

func (x *exporter) Open(mem []byte) (Place, error) {
	if x.full {
		return Place{}, errors.New("no room")
	}
	x.places = append(x.places, "open")
	return Place{Key: uint32(10 * (len(x.places) - 1)), Pages: 3}, nil
}

func (x *exporter) step(at Place, from, to string) {
	if p := &x.places[at.Key/10]; *p != from {
		x.wrong = fmt.Errorf("place %d is %s when it becomes %s", at.Key, *p, to)
	} else {
		*p = to
	}
}

func (x *exporter) Shut(at Place)                                 { x.step(at, "open", "shut") }
func (x *exporter) Free(at Place)                                 { x.step(at, "shut", "freed") }
func (x *exporter) SayAsk(uint32, uint32, []byte)                 {}
func (x *exporter) SayForget(uint32)                              {}
func (x *exporter) SayDeny(seq uint32, why provider.Reason)       { x.say("deny", seq, uint32(why)) }
func (x *exporter) SayGrant(seq, slot uint32, at Place, _ uint64) { x.say("grant", seq, slot, at.Key) }
func (x *exporter) SayRevoke(slot uint32)                         { x.say("revoke", slot) }
func (x *exporter) SayRedirect(slot uint32, at Place)             { x.say("redirect", slot, at.Key) }
func (x *exporter) SayMoved(slot uint32)                          { x.say("moved", slot) }
func (x *exporter) say(what string, numbers ...uint32) {
	x.said = append(x.said, fmt.Sprint(what, numbers))
	if x.ends {
		for _, g := range x.Grants.End() {
			x.Released(g)
		}
	}
}

func (x *exporter) Asked(*provider.Request)    {}
func (x *exporter) Released(g *provider.Grant) { x.released[g]++ }
func (x *exporter) Redirected(g *provider.Grant, lo, hi uint64, count uint32) {
	x.moved[g]++
}

// want is what the rules say of one grant.
type want struct {
	g       *provider.Grant
	keys    []uint32 // its places: the present one, then, while it moves, the one before
	taken   bool
	ended   bool
	told    bool // Up.Released
	answers int  // Up.Redirected
}

// world is a table with what the rules say of it.
type world struct {
	x   *exporter
	seq uint32
	all []*want
	end bool
}

func newWorld() *world {
	w := &world{x: &exporter{released: map[*provider.Grant]int{}, moved: map[*provider.Grant]int{}}}
	w.x.Init(w.x, w.x)
	return w
}

// live returns the n-th want whose slot is in use, or nil.
func (w *world) live(n int) *want {
	for _, x := range w.all {
		if !x.ended {
			if n == 0 {
				return x
			}
			n--
		}
	}
	return nil
}

func (w *world) allow() error {
	w.seq++
	w.x.Asks.Asked(provider.Identity{Process: 7}, &Reader{B: append(binary.BigEndian.AppendUint32(nil, w.seq), make([]byte, 4+provider.TicketSize)...)})
	g, err := w.x.Grants.Allow(w.x.Asks.others[w.seq], []byte{1, 2}, nil)
	if err != nil {
		return err
	}
	if g.To.Process != 7 {
		return fmt.Errorf("granted to %v", g.To)
	}
	w.all = append(w.all, &want{g: g, keys: []uint32{uint32(10 * (len(w.x.places) - 1))}})
	return nil
}

// over notes that the peer names nothing of x any more.
func (x *want) over() { x.ended, x.told, x.keys = true, true, nil }

// operations is all that a process and its peer may do. Each returns an error if the table has
// answered against the rules; x may be nil, and then the table must do nothing.
var operations = []struct {
	name string
	do   func(w *world, x *want) error
}{
	{"revoke", func(w *world, x *want) error {
		w.x.Grants.Revoke(x.g, false)
		return nil
	}},
	{"take", func(w *world, x *want) error {
		w.x.Grants.Revoke(x.g, true)
		x.taken, x.told = true, true
		return nil
	}},
	{"released", func(w *world, x *want) error {
		w.x.Grants.Released(x.g.Slot)
		x.over()
		return nil
	}},
	{"redirect", func(w *world, x *want) error {
		var must error
		switch {
		case x.taken:
			must = provider.ErrPeer
		case len(x.keys) == 2:
			must = provider.ErrFull
		default:
			x.keys = []uint32{uint32(10 * len(w.x.places)), x.keys[0]}
		}
		if err := w.x.Grants.Redirect(x.g, []byte{3, 4}); err != must {
			return fmt.Errorf("%v, want %v", err, must)
		}
		return nil
	}},
	{"redirected", func(w *world, x *want) error {
		r := Reader{B: append(binary.BigEndian.AppendUint32(nil, x.g.Slot), make([]byte, 20)...)}
		w.x.Grants.Redirected(&r)
		if bad := !x.taken && len(x.keys) == 1; r.Bad != bad {
			return fmt.Errorf("bad is %v", r.Bad)
		}
		if !x.taken && len(x.keys) == 2 {
			x.keys = x.keys[:1]
			x.answers++
		}
		return nil
	}},
}

// end ends the connection, and reports what is untold.
func (w *world) endAll() error {
	untold := w.x.Grants.End()
	for _, x := range w.all {
		if !x.ended && slices.Contains(untold, x.g) == x.told {
			return fmt.Errorf("the grant of slot %d: told %v, untold at the end %v", x.g.Slot, x.told, !x.told)
		}
		if !x.ended && !x.told {
			w.x.Released(x.g)
		}
		x.over()
	}
	w.end = true
	return nil
}

// check compares the table with the rules.
func (w *world) check() error {
	if w.x.wrong != nil {
		return w.x.wrong
	}
	places := make([]string, len(w.x.places))
	for i := range places {
		places[i] = "freed"
	}
	used := map[uint32]bool{}
	for _, x := range w.all {
		state := "open"
		if x.taken {
			state = "shut"
		}
		for _, key := range x.keys {
			places[key/10] = state
			if g, taken := w.x.Grants.ByPage(key + 2); g != x.g || taken != x.taken {
				return fmt.Errorf("page %d is of %p, taken %v; want %p, %v", key+2, g, taken, x.g, x.taken)
			}
		}
		told := 0
		if x.told {
			told = 1
		}
		if w.x.released[x.g] != told {
			return fmt.Errorf("a grant is reported as released %d times, want %d", w.x.released[x.g], told)
		}
		if w.x.moved[x.g] != x.answers {
			return fmt.Errorf("a grant is reported as redirected %d times, want %d", w.x.moved[x.g], x.answers)
		}
		if x.ended {
			continue
		}
		if used[x.g.Slot] {
			return fmt.Errorf("slot %d has two grants", x.g.Slot)
		}
		used[x.g.Slot] = true
		if g, taken := w.x.Grants.BySlot(x.g.Slot); g != x.g || taken != x.taken {
			return fmt.Errorf("slot %d has %p, taken %v; want %p, %v", x.g.Slot, g, taken, x.g, x.taken)
		}
	}
	if w.x.Grants.Len() != len(used) {
		return fmt.Errorf("%d slots are in use, want %d", w.x.Grants.Len(), len(used))
	}
	if !slices.Equal(places, w.x.places) {
		return fmt.Errorf("places are %v, want %v", w.x.places, places)
	}
	return nil
}

// do does operation n of all: allow, end, and each of operations with one of the first two grants.
func (w *world) do(n int) (name string, err error) {
	switch n {
	case 0:
		if w.end {
			return "", nil
		}
		return "allow", w.allow()
	case 1:
		return "end", w.endAll()
	}
	op, which := operations[(n-2)/2], (n-2)%2
	x := w.live(which)
	if x == nil {
		return "", nil
	}
	if err := op.do(w, x); err != nil {
		return op.name, err
	}
	return fmt.Sprint(op.name, " ", which), nil
}

// TestGrantsModel runs every sequence of six operations on two grants, and compares the table with
// the rules after each operation.
func TestGrantsModel(t *testing.T) {
	const most = 6
	number := 2 + 2*len(operations)
	sequences := 0
	var walk func(ops []int)
	walk = func(ops []int) {
		w := newWorld()
		var names []string
		for _, n := range ops {
			name, err := w.do(n)
			if err == nil {
				err = w.check()
			}
			names = append(names, name)
			if err != nil {
				t.Fatalf("%q: %v", names, err)
			}
		}
		if len(ops) > 0 && names[len(names)-1] == "" { // there is no such grant
			return
		}
		sequences++
		if len(ops) == most {
			return
		}
		for n := range number {
			walk(append(ops[:len(ops):len(ops)], n))
		}
	}
	walk(nil)
	t.Logf("%d sequences", sequences)
}

// TestGrantsSay checks what the peer is told, and which words of a peer are refused.
func TestGrantsSay(t *testing.T) {
	w := newWorld()
	for range 2 {
		if err := w.allow(); err != nil {
			t.Fatal(err)
		}
	}
	first := w.all[0].g
	w.x.Grants.Revoke(first, false)
	w.x.Grants.Revoke(first, false) // it is told once
	w.x.Grants.Redirect(w.all[1].g, nil)
	w.x.Grants.Moved(w.all[1].g)
	w.x.Grants.Released(0)
	w.x.Grants.Released(0)
	w.x.Grants.Released(1 << 31)
	w.x.Grants.Revoke(first, false) // it has ended
	w.x.Grants.Moved(first)
	if err := w.x.Grants.Redirect(first, nil); err != provider.ErrPeer {
		t.Errorf("Redirect of a grant that has ended: %v", err)
	}
	if err := w.allow(); err != nil { // in the slot that is free again
		t.Fatal(err)
	}
	w.x.Grants.Revoke(first, true) // the slot is another grant's now
	w.x.full = true
	if err := w.allow(); err == nil {
		t.Error("allowed without room")
	}
	if err := w.x.Grants.Redirect(w.all[2].g, nil); err == nil {
		t.Error("redirected without room")
	}
	want := []string{"grant[1 0 0]", "grant[2 1 10]", "revoke[0]", "redirect[1 20]", "moved[1]", "grant[3 0 30]", fmt.Sprint("deny", []uint32{4, uint32(provider.ReasonResource)})}
	if !slices.Equal(w.x.said, want) {
		t.Errorf("said %q, want %q", w.x.said, want)
	}
	if _, err := w.x.Grants.Allow(&provider.Request{Gone: true}, nil, nil); err != provider.ErrPeer {
		t.Errorf("Allow of a question that was withdrawn: %v", err)
	}
	for _, b := range [][]byte{nil, make([]byte, 23), binary.BigEndian.AppendUint32(nil, 2), {255, 255, 255, 255, 23: 0}} {
		r := Reader{B: b}
		if w.x.Grants.Redirected(&r); !r.Bad {
			t.Errorf("Redirected(%v) is taken", b)
		}
	}
}

// TestAllowEnds: a grant is neither returned nor reported as released if its connection ends while the
// peer is told of it.
func TestAllowEnds(t *testing.T) {
	w := newWorld()
	if err := w.allow(); err != nil {
		t.Fatal(err)
	}
	w.x.ends = true
	if err := w.allow(); err != provider.ErrPeer {
		t.Errorf("Allow: %v, want %v", err, provider.ErrPeer)
	}
	if w.x.wrong != nil || w.x.Grants.Len() != 0 || len(w.x.released) != 1 || !slices.Equal(w.x.places, []string{"freed", "freed"}) {
		t.Errorf("%v; %d slots in use, %d grants released, places %v", w.x.wrong, w.x.Grants.Len(), len(w.x.released), w.x.places)
	}
}
