package splitc

import (
	"context"
	"encoding/binary"
	"fmt"
)

// The collectives, as messages name them.
const (
	codeStart = 1 + iota
	codeExit
	codeBarrier
	codeMalloc
	codeFree
	codeBroadcast
	codeReduce
	codeScan
	codeSegmentedScan
	codeGather
	codeScatter
	codeAllStoreSync
	codeReduceToOne
	codeReduceSlice
	codeExclusiveScan
	codeBroadcastSlice
	codeAllGather
)

var callNames = [...]string{
	codeStart: "start", codeExit: "exit", codeBarrier: "barrier", codeMalloc: "all_spread_malloc", codeFree: "all_spread_free",
	codeBroadcast: "broadcast", codeReduce: "reduce to all", codeScan: "scan", codeSegmentedScan: "segmented scan",
	codeGather: "gather", codeScatter: "scatter", codeAllStoreSync: "all_store_sync", codeReduceToOne: "reduce to one",
	codeReduceSlice: "reduce of a slice to all", codeExclusiveScan: "exclusive scan", codeBroadcastSlice: "broadcast of a slice",
	codeAllGather: "gather to all",
}

// call is a collective as all processes must call it alike.
type call struct {
	seq  uint32 // how many there were before
	code uint8
	root uint16 // of those that have one
	size uint64 // bytes of a process's part
	op   uint32 // a hash of the operation, or of other things that must be equal
	// inOrder says that the result depends on the order or the groups in which values are
	// combined.
	inOrder bool
}

// inOrderBit is where a call has inOrder beside its code.
const inOrderBit = 1 << 8

const callSize = 20

// maxCallText is the longest text of a call.
const maxCallText = 160

func (c call) put(b []byte) {
	binary.LittleEndian.PutUint32(b, c.seq)
	code := uint16(c.code)
	if c.inOrder {
		code |= inOrderBit
	}
	binary.LittleEndian.PutUint16(b[4:], code)
	binary.LittleEndian.PutUint16(b[6:], c.root)
	binary.LittleEndian.PutUint64(b[8:], c.size)
	binary.LittleEndian.PutUint32(b[16:], c.op)
}

// getCall reads what put has written, which may be anything.
func getCall(b []byte) call {
	code := binary.LittleEndian.Uint16(b[4:])
	return call{seq: binary.LittleEndian.Uint32(b), code: uint8(code), inOrder: code&inOrderBit != 0, root: binary.LittleEndian.Uint16(b[6:]),
		size: binary.LittleEndian.Uint64(b[8:]), op: binary.LittleEndian.Uint32(b[16:])}
}

func (c call) String() string {
	name := fmt.Sprint("unknown call ", c.code)
	if int(c.code) < len(callNames) && c.code != 0 {
		name = callNames[c.code]
	}
	text := fmt.Sprintf("%s (its collective %d", name, c.seq)
	if c.size != 0 {
		text += fmt.Sprintf(", %d bytes", c.size)
	}
	if c.root != 0 || c.rooted() {
		text += fmt.Sprintf(", root %d", c.root)
	}
	switch {
	case c.op == 0:
	case c.code == codeMalloc || c.code == codeFree:
		text += fmt.Sprintf(", the array's place, blocks and type hash to %x", c.op)
	case c.code == codeStart:
		text += fmt.Sprintf(", the layer and what is registered hash to %x", c.op)
	default:
		text += fmt.Sprintf(", operation %x", c.op)
	}
	return text + ")"
}

// rooted reports whether the collective is one with a root.
func (c call) rooted() bool {
	switch c.code {
	case codeBroadcast, codeBroadcastSlice, codeReduceToOne, codeGather, codeScatter:
		return true
	}
	return false
}

// Barrier returns when all processes have called it (barrier). It says nothing of gets,
// puts and stores under way.
func (w *World) Barrier(ctx context.Context) error {
	if err := w.ready("barrier"); err != nil {
		return err
	}
	w.stats.Barriers++
	return w.meet(ctx, call{code: codeBarrier})
}

// meet is a barrier as a part of a collective.
func (w *World) meet(ctx context.Context, c call) error {
	if err := w.gatherUp(ctx, &c, nil); err != nil {
		return err
	}
	if err := w.exchange(ctx, c, nil, nil); err != nil {
		return err
	}
	return w.spreadDown(ctx, c, nil)
}

// gatherUp begins a collective: it numbers it, and hands the parts of the children to
// take, in their order.
func (w *World) gatherUp(ctx context.Context, c *call, take func(kid int, part []byte)) error {
	w.tree.seq++
	c.seq = w.tree.seq
	w.stats.Collectives++
	if c.inOrder && w.tree.apart {
		if err := w.same(ctx, *c); err != nil {
			return err
		}
	}
	for i, k := range w.tree.of(*c).kids {
		if err := w.hear(ctx, *c, k); err != nil {
			return err
		}
		if take != nil {
			take(i, k.part())
		}
		k.full = false
	}
	return nil
}

// same says along the tree of hosts that this process, and all below it, are in a collective
// that goes along the tree of ranks.
func (w *World) same(ctx context.Context, c call) error {
	for _, k := range w.tree.hosts.kids {
		if err := w.hear(ctx, c, k); err != nil {
			return err
		}
		k.full = false
	}
	if p := w.tree.hosts.parent; p != nil {
		return w.broken(w.heard(w.say(ctx, p.rank, kindSame, c, nil)))
	}
	return nil
}

// exchange sends this process's part to its parent, if it has one, and hands to take
// what comes from there.
func (w *World) exchange(ctx context.Context, c call, part []byte, take func(part []byte)) error {
	p := w.tree.of(c).parent
	if p == nil {
		return nil
	}
	up, _ := w.tree.kinds(c)
	if err := w.heard(w.say(ctx, p.rank, up, c, part)); err != nil {
		return w.broken(err)
	}
	if err := w.hear(ctx, c, p); err != nil {
		return err
	}
	if take != nil {
		take(p.part())
	}
	p.full = false
	return nil
}

// spreadDown sends the children what part returns for each.
func (w *World) spreadDown(ctx context.Context, c call, part func(kid int) []byte) error {
	_, down := w.tree.kinds(c)
	for i, k := range w.tree.of(c).kids {
		var b []byte
		if part != nil {
			b = part(i)
		}
		if err := w.heard(w.say(ctx, k.rank, down, c, b)); err != nil {
			return w.broken(err)
		}
	}
	return nil
}

// hear waits for the message of a neighbour, and compares its collective with this
// process's.
func (w *World) hear(ctx context.Context, c call, p *place) error {
	if err := w.wait(ctx, Waiting{What: callNames[c.code], Proc: p.rank, Named: true}, func() bool { return p.full }); err != nil {
		return w.broken(err)
	}
	if other := p.call(); other != c {
		return w.mismatch(c, other, p.rank)
	}
	return nil
}
