package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// region is the importer's state of an import: a run of proxy pages.
type region struct {
	provider.Region
	k       *conn
	first   uint32 // proxy page
	pages   uint32
	offset  int // offset of the memory in its first page
	to      run // frames that the pages lead to
	leaving bool
	gone    bool

	// A pending redirection. It waits until earlier writes have ended, and until the exporter has
	// copied their data and those of other importers.
	moving bool
	copied bool
	turn   uint32 // redirections so far
	drain  int    // number of writes that it waits for
	next   run
	nextAt int
	reply  []byte
}

// base returns the offset, in its first page, of the memory that the next writes go to.
func (x *region) base() uint64 {
	if x.moving {
		return uint64(x.nextAt)
	}
	return uint64(x.offset)
}

// granted handles the grant of an import. If the import is no longer wanted, or there is no room
// for it, it is released at once.
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
	if !x.reserveProxyPages() {
		k.say(body(sayReleased, x.Slot))
		a.Err = fmt.Errorf("%w: an import of %d bytes needs %d consecutive proxy pages, %d of %d are in use: release other imports", provider.ErrNoRoom,
			x.Size, pagesOf(pageSize-1, x.Size), k.p.queue.table.count(), outgoingPages)
		k.p.up.Answered(a)
		return
	}
	k.regions[x.Slot] = x
	x.Link, x.Ask, x.ID, x.Lo, x.Addr = x, a, a.ID, x.Size, uint64(x.offset)
	a.Region = &x.Region
	k.p.up.Answered(a)
}

// reserveProxyPages reserves proxy pages that lead to the memory. Their number suffices for any offset in the
// first page, because a redirection may change the offset.
func (x *region) reserveProxyPages() bool {
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

// lead makes the pages lead to frames. The caller must hold the host's lock.
func (x *region) lead(to run) {
	if x.k.holds() {
		x.k.p.queue.table.set(x.first, x.k.node, to)
	}
}

// close invalidates the pages. The caller must hold the host's lock.
func (x *region) close() {
	if !x.gone {
		x.k.p.queue.table.close(x.first, x.pages)
	}
}

// lose ends the region for the process.
func (x *region) lose(why error) {
	if x.Err == nil {
		x.Err = why
		x.k.p.up.Lost(&x.Region)
	}
	if x.k.ended {
		x.leave()
	}
}

// leave releases the region when its writes have ended.
func (x *region) leave() {
	x.leaving = true
	k := x.k
	k.notes.waiting.Keep(func(slot *uint32) bool { return *slot != x.Slot }) // otherwise they would be sent for the slot's next import
	x.writesEnded()
}

// writesEnded does the work that waits for the end of writes.
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

// moved records that the exporter has copied the data written before a redirection.
func (k *conn) moved(slot uint32) {
	if x := k.regions[slot]; x != nil && x.moving {
		x.copied = true
		x.writesEnded()
	}
}

// redirect makes future writes go elsewhere when the current ones have ended.
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

// move makes the proxy pages lead to the new memory, even for an import that is being released:
// writes that were posted before go there. After the end of the connection the pages lead nowhere,
// and those writes fail.
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

// names reports whether the process may write to a frame through this connection.
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
