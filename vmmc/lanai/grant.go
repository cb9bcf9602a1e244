package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// grant is an import as the exporter has it, with its frames.
type grant struct {
	provider.Grant
	frames run
	before run // of the memory before a redirection that the importer has not confirmed
}

// States of a grant.
const (
	granted  uint8 = iota
	revoking       // the importer has been told
	taken          // the memory was taken without the importer, who may name the frames yet
)

// Allow implements provider.Provider.
func (p *process) Allow(q *provider.Request, mem []byte, export any) (*provider.Grant, error) {
	k := q.Link.(*conn)
	if q.Gone {
		return nil, provider.ErrPeer
	}
	p.h.eng.Lock()
	r, ok := p.h.grant(p, mem)
	p.h.eng.Unlock()
	if !ok {
		p.Deny(q, provider.ReasonResource)
		return nil, fmt.Errorf("%w: the node has no %d pages in a row (Config.Memory)", ErrNoRoom, pagesOf(pageOffset(mem), uint64(len(mem))))
	}
	k.asks.Allowed(q)
	slot := len(k.grants)
	for i, g := range k.grants {
		if g == nil {
			slot = i
			break
		}
	}
	if slot == len(k.grants) {
		k.grants = append(k.grants, nil)
	}
	g := &grant{Grant: provider.Grant{To: k.peer, Export: export, Slot: uint32(slot), Mem: mem}, frames: r}
	g.Link = k
	k.grants[slot] = g
	k.say(be64(body(sayGrant, q.Seq, g.Slot, r.first, uint32(pageOffset(mem))), uint64(len(mem))))
	return &g.Grant, nil
}

// of returns what a grant is here; nil if it has ended.
func of(x *provider.Grant) (*conn, *grant) {
	k := x.Link.(*conn)
	if k.ended || int(x.Slot) >= len(k.grants) || k.grants[x.Slot] == nil || &k.grants[x.Slot].Grant != x {
		return nil, nil
	}
	return k, k.grants[x.Slot]
}

// Revoke implements provider.Provider.
func (p *process) Revoke(x *provider.Grant, atOnce bool) {
	k, g := of(x)
	switch {
	case k == nil || g.State == taken:
	case atOnce:
		g.State = taken
		p.h.eng.Lock()
		for _, r := range []run{g.frames, g.before} {
			p.h.ungrant(r)
		}
		p.h.eng.Unlock()
		p.up.Released(x)
	case g.State != revoking:
		g.State = revoking
		k.say(body(sayRevoke, g.Slot))
	}
}

// released: the importer's writes have all come before this message.
func (k *conn) released(slot uint32) {
	if int(slot) >= len(k.grants) || k.grants[slot] == nil {
		return
	}
	g := k.grants[slot]
	k.grants[slot] = nil
	h := k.p.h
	h.eng.Lock()
	for _, r := range []run{g.frames, g.before} {
		if r.n > 0 {
			h.ungrant(r)
			h.frames.free(r)
		}
	}
	h.eng.Unlock()
	if g.State != taken {
		k.p.up.Released(&g.Grant)
	}
}

// Redirect implements provider.Provider.
func (p *process) Redirect(x *provider.Grant, mem []byte) error {
	k, g := of(x)
	if k == nil || g.State == taken {
		return provider.ErrPeer
	}
	if g.before.n != 0 {
		return provider.ErrFull // the importer has not answered the last time
	}
	p.h.eng.Lock()
	r, ok := p.h.grant(p, mem)
	p.h.eng.Unlock()
	if !ok {
		return fmt.Errorf("%w: the node has not so many pages in a row (Config.Memory)", ErrNoRoom)
	}
	g.before, g.Before, g.frames, g.Mem = g.frames, g.Mem, r, mem
	k.say(body(sayRedirect, g.Slot, r.first, uint32(pageOffset(mem))))
	return nil
}

// Moved implements provider.Provider.
func (p *process) Moved(x *provider.Grant) {
	if k, g := of(x); k != nil {
		k.say(body(sayMoved, g.Slot))
	}
}

// redirected: all that went to the old memory has come before this message.
func (k *conn) redirected(r *asking.Reader) {
	slot, lo, hi, count := r.U32(), r.U64(), r.U64(), r.U32()
	if r.Bad || int(slot) >= len(k.grants) || k.grants[slot] == nil {
		r.Bad = true
		return
	}
	g := k.grants[slot]
	if g.State == taken {
		return
	}
	if g.before.n == 0 {
		r.Bad = true
		return
	}
	h := k.p.h
	h.eng.Lock()
	h.ungrant(g.before)
	h.frames.free(g.before)
	h.eng.Unlock()
	g.before = run{}
	k.p.up.Redirected(&g.Grant, lo, hi, count)
}

func (r run) has(frame uint32) bool { return frame >= r.first && frame < r.first+r.n }
