package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// region is an import as the importer has it: a run of proxy pages.
type region struct {
	provider.Region
	k       *conn
	first   uint32 // proxy page
	pages   uint32
	offset  int // byte of the first page at which the memory begins
	to      run // frames that the pages lead to
	leaving bool
	gone    bool

	// A redirection that waits until what was posted before it has ended, and the exporter has
	// copied that, and what others have written.
	moving bool
	copied bool
	turn   uint32 // redirections so far
	drain  int    // writes that it waits for
	next   run
	nextAt int
	reply  []byte
}

// base returns at which byte of a page the memory begins that writes go to from now on.
func (x *region) base() uint64 {
	if x.moving {
		return uint64(x.nextAt)
	}
	return uint64(x.offset)
}

// granted takes in an import. One that nobody wants any more, or that there is no room
// for, is given up at once.
func (k *conn) granted(r *asking.Reader) {
	seq := r.U32()
	x := &region{k: k, Region: provider.Region{Owner: k.peer, Slot: r.U32()}}
	x.to.first, x.offset = r.U32(), int(r.U32())
	x.Size = r.U64()
	x.to.n = uint32(min(pagesOf(x.offset, x.Size), maxMemory))
	if r.Bad || k.regions[x.Slot] != nil || x.offset >= pageSize || x.Size > 1<<40 || uint64(x.to.first)+uint64(x.to.n) > maxMemory {
		r.Bad = true
		return
	}
	a := k.Asks.Granted(seq)
	if a == nil {
		k.say(body(sayReleased, x.Slot))
		return
	}
	if !x.open() {
		k.say(body(sayReleased, x.Slot))
		a.Err = fmt.Errorf("%w: an import of %d bytes needs %d proxy pages in a row, %d of %d are in use: give others up", provider.ErrNoRoom,
			x.Size, pagesOf(pageSize-1, x.Size), k.p.queue.table.count(), outgoingPages)
		k.p.up.Answered(a)
		return
	}
	k.regions[x.Slot] = x
	x.Link, x.Ask, x.ID, x.Lo, x.Addr = x, a, a.ID, x.Size, uint64(x.offset)
	a.Region = &x.Region
	k.p.up.Answered(a)
}

// open reserves proxy pages and has them lead to the memory: as many as it needs wherever
// in a page it begins, because it may move.
func (x *region) open() bool {
	n := pagesOf(pageSize-1, x.Size)
	h := x.k.p.h
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	if n > outgoingPages {
		return false
	}
	first, ok := x.k.p.queue.table.reserve(n)
	if ok {
		x.first, x.pages = first, uint32(n)
		x.lead(x.to)
	}
	return ok
}

// lead has the pages lead to frames. The host's lock is held.
func (x *region) lead(to run) {
	if x.k.holds() {
		x.k.p.queue.table.set(x.first, x.k.node, to)
	}
}

// close has the pages lead nowhere. The host's lock is held.
func (x *region) close() {
	if !x.gone {
		x.k.p.queue.table.close(x.first, x.pages)
	}
}

// lose ends a region for the process.
func (x *region) lose(why error) {
	if x.Err == nil {
		x.Err = why
		x.k.p.up.Lost(&x.Region)
	}
	if x.k.ended {
		x.leave()
	}
}

// leave gives the region up, when its writes have ended.
func (x *region) leave() {
	x.leaving = true
	k := x.k
	k.notes.waiting.Keep(func(slot *uint32) bool { return *slot != x.Slot }) // they would meet another import's
	x.writesEnded()
}

// writesEnded does what waits until writes have ended.
func (x *region) writesEnded() {
	k := x.k
	if x.leaving && x.Busy == 0 && !x.gone {
		h := k.p.h
		h.host.Engine.Lock()
		k.p.queue.table.free(x.first, x.pages)
		x.gone = true
		h.host.Engine.Unlock()
		if !k.ended {
			delete(k.regions, x.Slot)
			k.say(body(sayReleased, x.Slot))
		}
		return
	}
	if !x.moving || x.drain > 0 {
		return
	}
	if x.reply != nil && !k.ended {
		k.say(x.reply)
		x.reply = nil
	}
	if x.copied || k.ended {
		x.move()
	}
}

// moved: the exporter has copied what had gone to the memory before a redirection.
func (k *conn) moved(slot uint32) {
	if x := k.regions[slot]; x != nil && x.moving {
		x.copied = true
		x.writesEnded()
	}
}

// redirect has the writes from now on go elsewhere, when those before have ended.
func (k *conn) redirect(r *asking.Reader) {
	slot, first, offset := r.U32(), r.U32(), int(r.U32())
	x := k.regions[slot]
	if x == nil || x.leaving {
		return // it has been released
	}
	to := run{first, uint32(pagesOf(offset, x.Size))}
	if r.Bad || x.moving || offset >= pageSize || uint64(to.first)+uint64(to.n) > maxMemory {
		r.Bad = true
		return
	}
	x.moving, x.drain, x.next, x.nextAt = true, x.Busy, to, offset
	x.turn++
	x.copied = false
	x.reply = be32(be64(be64(body(sayRedirected, slot), x.Lo), x.Hi), x.Count)
	x.Lo, x.Hi, x.Count = x.Size, 0, 0
	x.writesEnded()
}

// move has the proxy pages lead to the new memory, also those of an import that is given up: what
// was posted to it before goes there. Those of a connection that has ended lead nowhere, and what
// was posted fails.
func (x *region) move() {
	p := x.k.p
	h := p.h
	h.host.Engine.Lock()
	p.queue.table.close(x.first, x.pages)
	if !x.k.ended {
		x.lead(x.next)
	}
	x.moving, x.to, x.offset = false, x.next, x.nextAt
	h.host.Engine.Unlock()
	x.Addr = uint64(x.offset)
	p.post()
}

// names reports whether a frame is one that the process writes to.
func (k *conn) names(frame uint32) bool {
	for _, x := range k.regions {
		if x.to.has(frame) {
			return true
		}
	}
	return false
}

// Release implements provider.Provider.
func (p *process) Release(r *provider.Region) {
	if r.Err == nil {
		r.Err = provider.ErrReleased
	}
	if x := r.Link.(*region); !x.leaving {
		x.leave()
	}
}
