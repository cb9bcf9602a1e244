package splitc

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Collectives go up a binary tree and down again, as the barrier of the paper does (5.2):
// a process sends upwards when it has heard of its children, and downwards when it has
// heard of its parent. The tree is numbered in preorder: a process comes first, then all
// below its first child, then all below its second. So what is below a process are
// processes that follow each other, and reductions combine values in their order. Where
// processes of one host share memory only one of them is in it, with the others below.
//
// Nobody can be further than one collective ahead of a neighbour in the tree, so that
// one place for a message of each is enough.

// kinds of control messages.
const (
	kindUp       = 1 + iota // a part of a collective, for the parent
	kindDown                // the result of one, for a child
	kindMismatch            // two processes are in different collectives
	kindLeaving             // a process has called Exit; how many bytes it has stored at the receiver
)

// headSize is what a control message begins with: kind, 3 bytes unused, the call,
// in bytes. maxPart is what may follow.
const (
	headSize = 4 + callSize
	maxPart  = layer.MaxControl - headSize
)

// place is a neighbour in the tree, and the message of its that has come.
type place struct {
	rank int
	full bool
	n    int
	buf  [layer.MaxControl]byte
}

func (p *place) call() call   { return getCall(p.buf[4:]) }
func (p *place) part() []byte { return p.buf[headSize:p.n] }

// tree is this process's place among the others.
type tree struct {
	parent *place // nil for process 0
	kids   []*place
	seq    uint32 // collectives so far
	told   *MismatchError
	by     int    // who has told it, or -1
	leaves []bool // who has called Exit
	left   int    // how many others have
	owed   uint64 // bytes that those have stored here, some of which may be on their way
	out    [layer.MaxControl]byte
	strays uint64
}

// newTree returns the place of a process in the tree. hosts has the host of each process
// where those of one host share memory, and is nil elsewhere. Processes of one host that
// follow each other are children of the first of them, which waits for their messages in an
// array in memory, one place for each (5.2); only these first ones are in the binary tree.
func newTree(me, procs int, hosts []int) tree {
	t := tree{leaves: make([]bool, procs), by: -1}
	var firsts []int
	mine := 0 // the group of me
	for proc := range procs {
		if hosts == nil || proc == 0 || hosts[proc] != hosts[proc-1] {
			firsts = append(firsts, proc)
		}
		if proc == me {
			mine = len(firsts) - 1
		}
	}
	first, end := firsts[mine], procs
	if mine+1 < len(firsts) {
		end = firsts[mine+1]
	}
	if me != first {
		t.parent = &place{rank: first}
		return t
	}
	for proc := first + 1; proc < end; proc++ {
		t.kids = append(t.kids, &place{rank: proc})
	}
	parent, kids := binaryPlace(mine, len(firsts))
	if parent >= 0 {
		t.parent = &place{rank: firsts[parent]}
	}
	for _, k := range kids {
		t.kids = append(t.kids, &place{rank: firsts[k]})
	}
	return t
}

// binaryPlace returns the parent, or -1, and the children of a place of a binary tree of n
// in preorder.
func binaryPlace(at, n int) (parent int, kids []int) {
	lo, hi, parent := 0, n, -1
	for {
		first, second := lo+1, lo+1+(hi-lo)/2 // what is below lo is in two halves
		if at == lo {
			if first < second && first < hi {
				kids = append(kids, first)
			}
			if second < hi {
				kids = append(kids, second)
			}
			return parent, kids
		}
		parent = lo
		if at < second {
			lo, hi = first, second
		} else {
			lo = second
		}
	}
}

// upper is what a layer calls.
type upper struct{ w *World }

// Call runs an atomic procedure.
func (u upper) Call(_ int, fn uint32, args, result []byte) int {
	return u.w.runAtomic(fn, args, result)
}

// Control takes a control message, which may be anything.
func (u upper) Control(from int, msg []byte) {
	w := u.w
	t := &w.tree
	if len(msg) < headSize || len(msg) > layer.MaxControl {
		t.strays++
		return
	}
	switch msg[0] {
	case kindUp:
		for _, k := range t.kids {
			if k.rank == from && k.take(msg) {
				return
			}
		}
	case kindDown:
		if p := t.parent; p != nil && p.rank == from && p.take(msg) {
			return
		}
	case kindMismatch:
		if m, ok := getMismatch(msg[headSize:], w.procs); ok {
			if t.told == nil {
				t.told, t.by = m, from
			}
			return
		}
	case kindLeaving:
		if from != w.me && !t.leaves[from] && len(msg) == headSize+8 {
			t.leaves[from] = true
			t.left++
			t.owed += binary.LittleEndian.Uint64(msg[headSize:])
			return
		}
	}
	t.strays++
}

// take keeps a message, if there is none yet.
func (p *place) take(msg []byte) bool {
	if p.full {
		return false
	}
	p.full, p.n = true, copy(p.buf[:], msg)
	return true
}

// say sends a control message.
func (w *World) say(ctx context.Context, to int, kind uint8, c call, part []byte) error {
	out := w.tree.out[:headSize+len(part)]
	out[0], out[1], out[2], out[3] = kind, 0, 0, 0
	c.put(out[4:])
	if kind == kindUp && w.gather != nil { // what comes down is the answer
		return w.gather.Gather(ctx, to, out[:headSize], part)
	}
	copy(out[headSize:], part)
	return w.layer.Control(ctx, to, out)
}

// mismatch ends the program because this process and another one are in different
// collectives.
func (w *World) mismatch(mine, other call, rank int) error {
	m := &MismatchError{Ranks: [2]int{w.me, rank}, Calls: [2]string{mine.String(), other.String()}}
	w.stop = m
	w.tellMismatch(m)
	w.publish()
	return m
}

// tellMismatch tells the neighbours in the tree, but for the one that has told this
// process.
func (w *World) tellMismatch(m *MismatchError) {
	var text []byte
	text = binary.LittleEndian.AppendUint32(text, uint32(m.Ranks[0]))
	text = binary.LittleEndian.AppendUint32(text, uint32(m.Ranks[1]))
	text = append(text, uint8(len(m.Calls[0])))
	text = append(text, m.Calls[0]...)
	text = append(text, m.Calls[1]...)
	for _, p := range append([]*place{w.tree.parent}, w.tree.kids...) {
		if p != nil && p.rank != w.tree.by {
			// Who does not hear it here hears that this process fails.
			_ = w.say(w.watch.Slice(), p.rank, kindMismatch, call{}, text)
		}
	}
	_ = w.layer.Poll()
}

// getMismatch reads what tellMismatch has written, which may be anything.
func getMismatch(b []byte, procs int) (*MismatchError, bool) {
	if len(b) < 9 || len(b) > 9+2*maxCallText || int(b[8]) > len(b)-9 {
		return nil, false
	}
	m := &MismatchError{}
	for i := range m.Ranks {
		m.Ranks[i] = int(binary.LittleEndian.Uint32(b[4*i:]))
		if m.Ranks[i] >= procs {
			return nil, false
		}
	}
	text := b[9:]
	m.Calls = [2]string{printable(text[:b[8]]), printable(text[b[8]:])}
	return m, true
}

// printable returns a text of another process, which may be anything, for people.
func printable(b []byte) string {
	s := make([]byte, len(b))
	for i, c := range b {
		if c < ' ' || c > '~' {
			c = '?'
		}
		s[i] = c
	}
	return string(s)
}

// broken makes the end of a wait within a collective the end of the program: the other
// processes are in it still.
func (w *World) broken(err error) error {
	if err != nil && passing(err) && w.stop == nil {
		return w.fail(fmt.Errorf("splitc: a collective was abandoned: %w", err))
	}
	return err
}
