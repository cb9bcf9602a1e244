package splitc

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// Collectives go up a binary tree and down again, like the barrier of the paper (5.2). A process
// sends upwards after it has received the messages of its children, and downwards after it has
// received the message of its parent.
//
// If processes of one host share memory, only the first one of each host is in the binary tree. The
// others of the host are its children. This is the tree of hosts.
//
// The tree of ranks ignores hosts. It is numbered in preorder: first a process, then all processes
// below its first child, then all below its second. So the processes below a process are
// consecutive. Reductions combine values in the order of ranks, and in groups that depend only on
// the number of processes. Reductions whose result depends on neither, such as sums of integers,
// use the tree of hosts like everything else. For the others all processes also announce their
// collective upwards along the tree of hosts. So processes in different collectives detect it,
// whatever trees the collectives use, and no process continues before all have arrived.
//
// No process can be more than one collective ahead of a neighbour in a tree, so room for one
// message of each neighbour is enough.

// Kinds of control messages.
const (
	kindUp       = 1 + iota // a part of a collective, for the parent in the tree of hosts
	kindDown                // the result of one, for a child
	kindMismatch            // two processes are in different collectives
	kindLeaving             // a process has called Exit; the number of bytes that it has stored at the receiver
	kindSame                // for the parent in the tree of hosts: the collective in the tree of ranks
	kindRankUp              // kindUp and kindDown of the tree of ranks
	kindRankDown
)

// headSize is the size in bytes of the head of a control message: kind, 3 unused bytes, the call.
// maxPart is the most bytes after the head.
const (
	headSize = 4 + callSize
	maxPart  = layer.MaxControl - headSize
)

// place is a neighbour in the tree, with the message that has arrived from it.
type place struct {
	rank int
	full bool
	n    int
	buf  [layer.MaxControl]byte
}

func (p *place) call() call   { return getCall(p.buf[4:]) }
func (p *place) part() []byte { return p.buf[headSize:p.n] }

// branch is this process's place in a tree.
type branch struct {
	parent *place // nil for process 0
	kids   []*place
}

// tree is this process's place among the others.
type tree struct {
	branch        // of ranks
	hosts  branch // of hosts
	apart  bool   // these two trees differ, for some process
	seq    uint32 // collectives so far
	told   *MismatchError
	by     int    // the rank that has reported it, or -1
	leaves []bool // ranks that have called Exit
	left   int    // number of other ranks that have called Exit
	owed   uint64 // bytes that those have stored here, some of which may be in flight
	out    [layer.MaxControl]byte
	strays uint64
}

// newTree returns the place of a process in the trees. hosts has the host of each process if
// processes of one host share memory, and is nil otherwise.
func newTree(me, procs int, hosts []int) tree {
	t := tree{leaves: make([]bool, procs), by: -1}
	ranks, shared := groups(procs, nil), groups(procs, hosts)
	t.branch = newBranch(me, ranks)
	t.hosts = t.branch
	for proc := 0; hosts != nil && proc < procs && !t.apart; proc++ {
		parent, kids := neighbours(proc, ranks)
		other, others := neighbours(proc, shared)
		t.apart = parent != other || !slices.Equal(kids, others)
	}
	if t.apart {
		t.hosts = newBranch(me, shared)
	}
	return t
}

// of returns the tree that a collective uses.
func (t *tree) of(c call) *branch {
	if c.inOrder {
		return &t.branch
	}
	return &t.hosts
}

// kinds returns the message kinds of a collective, up its tree and down.
func (t *tree) kinds(c call) (up, down uint8) {
	if c.inOrder && t.apart {
		return kindRankUp, kindRankDown
	}
	return kindUp, kindDown
}

// groups returns the processes of each host in order, and the hosts in the order of their first
// processes. Without hosts each process is on a host of its own.
func groups(procs int, hosts []int) (all [][]int) {
	at := map[int]int{}
	for proc := range procs {
		host := proc
		if hosts != nil {
			host = hosts[proc]
		}
		i, known := at[host]
		if !known {
			i, at[host] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], proc)
	}
	return all
}

// newBranch returns the place of a process in the tree of groups.
func newBranch(me int, groups [][]int) (b branch) {
	parent, kids := neighbours(me, groups)
	if parent >= 0 {
		b.parent = &place{rank: parent}
	}
	for _, k := range kids {
		b.kids = append(b.kids, &place{rank: k})
	}
	return b
}

// neighbours returns the parent of a process, or -1, and its children in the tree of groups. The
// processes of a group are children of its first one, which waits for their messages in an array in
// memory, with one place for each (5.2). Only the first processes of groups are in the binary tree.
func neighbours(me int, groups [][]int) (parent int, kids []int) {
	at := slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, me) })
	if first := groups[at][0]; me != first {
		return first, nil
	}
	kids = slices.Clone(groups[at][1:])
	above, below := binaryPlace(at, len(groups))
	for _, k := range below {
		kids = append(kids, groups[k][0])
	}
	if above < 0 {
		return -1, kids
	}
	return groups[above][0], kids
}

// binaryPlace returns the parent, or -1, and the children of place at in a binary tree of n places
// in preorder.
func binaryPlace(at, n int) (parent int, kids []int) {
	lo, hi, parent := 0, n, -1
	for {
		first, second := lo+1, lo+1+(hi-lo)/2 // the places below lo are in two halves
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

// upper implements layer.Handler, which the layer calls.
type upper struct{ w *World }

// Call runs an atomic procedure.
func (u upper) Call(_ int, fn uint32, args, result []byte) int {
	return u.w.runAtomic(fn, args, result)
}

// Control processes a control message, which may be arbitrary bytes.
func (u upper) Control(from int, msg []byte) {
	w := u.w
	t := &w.tree
	if len(msg) < headSize || len(msg) > layer.MaxControl {
		t.strays++
		return
	}
	switch msg[0] {
	case kindUp, kindSame:
		if t.hosts.up(from, msg) {
			return
		}
	case kindDown:
		if t.hosts.down(from, msg) {
			return
		}
	case kindRankUp:
		if t.branch.up(from, msg) {
			return
		}
	case kindRankDown:
		if t.branch.down(from, msg) {
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

// up stores a message for the parent, and down one for a child, if it comes from a valid sender.
func (b *branch) up(from int, msg []byte) bool {
	for _, k := range b.kids {
		if k.rank == from && k.store(msg) {
			return true
		}
	}
	return false
}

func (b *branch) down(from int, msg []byte) bool {
	return b.parent != nil && b.parent.rank == from && b.parent.store(msg)
}

// store stores a message unless there is one already.
func (p *place) store(msg []byte) bool {
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
	if (kind == kindUp || kind == kindRankUp) && w.gather != nil { // the message down is the answer
		return w.gather.Gather(ctx, to, out[:headSize], part)
	}
	copy(out[headSize:], part)
	return w.layer.Control(ctx, to, out)
}

// mismatch ends the program because this process and another one are in different collectives.
func (w *World) mismatch(mine, other call, rank int) error {
	m := &MismatchError{Ranks: [2]int{w.me, rank}, Calls: [2]string{mine.String(), other.String()}}
	w.stop = m
	w.tellMismatch(m)
	w.publish()
	return m
}

// tellMismatch notifies the neighbours in the tree of hosts, except the one that has notified this
// process.
func (w *World) tellMismatch(m *MismatchError) {
	var text []byte
	text = binary.LittleEndian.AppendUint32(text, uint32(m.Ranks[0]))
	text = binary.LittleEndian.AppendUint32(text, uint32(m.Ranks[1]))
	text = append(text, uint8(len(m.Calls[0])))
	text = append(text, m.Calls[0]...)
	text = append(text, m.Calls[1]...)
	for _, p := range append([]*place{w.tree.hosts.parent}, w.tree.hosts.kids...) {
		if p != nil && p.rank != w.tree.by {
			// A process that does not receive this message learns that this process fails.
			_ = w.say(w.watch.Slice(), p.rank, kindMismatch, call{}, text)
		}
	}
	_ = w.layer.Poll()
}

// getMismatch decodes the output of tellMismatch, which may be arbitrary bytes.
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

// printable makes a text of another process, which may be arbitrary bytes, safe to print.
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

// broken makes the end of a wait within a collective the end of the program, because the other
// processes are still in the collective.
func (w *World) broken(err error) error {
	if err != nil && passing(err) && w.stop == nil {
		return w.fail(fmt.Errorf("%w; the collective was abandoned", err))
	}
	return err
}
