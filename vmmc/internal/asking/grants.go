package asking

import "github.com/bobnet-go/bobnet/vmmc/internal/provider"

// Place is the peer's name for memory that it may write to.
type Place struct {
	Addr  uint64 // where the memory begins: a virtual address, or a byte of the first page
	Key   uint32 // what admits the peer: a handle, or the number of the first page
	Pages uint32 // pages from Key on; 0 for a handle
}

// Grants are the imports that one end of a connection has granted to its peer, by slot.
//
// A grant is granted when Allow returns. Revoke asks the peer to release it (revoking). The peer's Released
// ends it, whether or not the peer was asked. Revoke with at once set shuts the memory without the peer
// (taken): the peer may continue to name the place and the slot until it releases them. End ends all grants
// with the connection.
//
// In addition, a grant may move. After Redirect the peer may write to the new place and to the
// old one, until its Redirected reports that it no longer names the old place.
//
// Grants open each place once, shut it once, and then free it once.
type Grants struct {
	asks   *Asks
	all    []*grant // by slot
	unused []uint32 // slots without a grant
}

// grant is a provider.Grant with its state.
type grant struct {
	provider.Grant
	state  state
	at     Place
	old    Place // before the last Redirect, while moving
	moving bool  // the peer has not answered the last Redirect
}

type state uint8

const (
	giving state = iota // Allow has not returned
	granted
	revoking
	taken
)

// Len returns the number of slots with a grant.
func (s *Grants) Len() int { return len(s.all) - len(s.unused) }

// Allow lets the asker of q write to mem. It returns provider.ErrPeer if the connection has ended, even
// if it ended while the answer was sent.
func (s *Grants) Allow(q *provider.Request, mem []byte, export any) (*provider.Grant, error) {
	if q.Gone {
		return nil, provider.ErrPeer
	}
	conn := s.asks.conn
	at, err := conn.Open(mem)
	if err != nil {
		s.asks.Deny(q, provider.ReasonResource)
		return nil, err
	}
	s.asks.Allowed(q)
	slot := uint32(len(s.all))
	if last := len(s.unused) - 1; last >= 0 {
		slot, s.unused = s.unused[last], s.unused[:last]
	} else {
		s.all = append(s.all, nil)
	}
	g := &grant{Grant: provider.Grant{To: q.From, Export: export, Link: conn, Slot: slot, Mem: mem}, at: at}
	s.all[slot] = g
	conn.SayGrant(q.Seq, slot, at, uint64(len(mem)))
	if s.of(&g.Grant) == nil { // to say so has ended the connection, and with it the grant
		return nil, provider.ErrPeer
	}
	g.state = granted
	return &g.Grant, nil
}

// slot returns the grant of a slot, nil if there is none.
func (s *Grants) slot(n uint32) *grant {
	if int64(n) >= int64(len(s.all)) {
		return nil
	}
	return s.all[n]
}

// of returns the grant behind x, nil if it has ended.
func (s *Grants) of(x *provider.Grant) *grant {
	if g := s.slot(x.Slot); g != nil && &g.Grant == x {
		return g
	}
	return nil
}

// BySlot returns the grant of a slot, and whether its memory is taken; nil if there is none.
func (s *Grants) BySlot(n uint32) (x *provider.Grant, isTaken bool) {
	if g := s.slot(n); g != nil {
		return &g.Grant, g.state == taken
	}
	return nil, false
}

// ByPage returns the grant with a page, and whether its memory is taken; nil if there is none.
func (s *Grants) ByPage(n uint32) (x *provider.Grant, isTaken bool) {
	for _, g := range s.all {
		if g != nil && (n-g.at.Key < g.at.Pages || g.moving && n-g.old.Key < g.old.Pages) {
			return &g.Grant, g.state == taken
		}
	}
	return nil, false
}

// Revoke revokes a grant.
func (s *Grants) Revoke(x *provider.Grant, atOnce bool) {
	g := s.of(x)
	switch {
	case g == nil || g.state == taken:
	case atOnce:
		s.shut(g)
		g.state = taken
		s.asks.up.Released(x)
	case g.state == granted:
		g.state = revoking
		s.asks.conn.SayRevoke(g.Slot)
	}
}

// shut revokes the memory of a grant from the peer, unless that is already done.
func (s *Grants) shut(g *grant) {
	if g.state == taken {
		return
	}
	s.asks.conn.Shut(g.at)
	if g.moving {
		s.asks.conn.Shut(g.old)
	}
}

// free ends a grant. The peer must no longer name its places, or the connection must have
// ended.
func (s *Grants) free(g *grant) {
	s.shut(g)
	s.asks.conn.Free(g.at)
	if g.moving {
		s.asks.conn.Free(g.old)
	}
	s.all[g.Slot] = nil
	s.unused = append(s.unused, g.Slot)
}

// Released handles the peer's message that it has released a slot. All the peer's writes to the
// slot have arrived before.
func (s *Grants) Released(slot uint32) {
	g := s.slot(slot)
	if g == nil {
		return
	}
	s.free(g)
	if g.state != taken {
		s.asks.up.Released(&g.Grant)
	}
}

// Redirect moves a grant to mem.
func (s *Grants) Redirect(x *provider.Grant, mem []byte) error {
	g := s.of(x)
	switch {
	case g == nil || g.state == taken:
		return provider.ErrPeer
	case g.moving:
		return provider.ErrFull // the peer has not answered the last time
	}
	at, err := s.asks.conn.Open(mem)
	if err != nil {
		return err
	}
	g.old, g.Before, g.moving = g.at, g.Mem, true
	g.at, g.Mem = at, mem
	s.asks.conn.SayRedirect(g.Slot, at)
	return nil
}

// Redirected handles the peer's answer to a redirection: slot, lo, hi, count. All the peer's writes
// to the old memory have arrived before.
func (s *Grants) Redirected(r *Reader) {
	slot, lo, hi, count := r.U32(), r.U64(), r.U64(), r.U32()
	g := s.slot(slot)
	if r.Bad || g == nil {
		r.Bad = true
		return
	}
	if g.state == taken {
		return
	}
	if !g.moving {
		r.Bad = true
		return
	}
	s.asks.conn.Shut(g.old)
	s.asks.conn.Free(g.old)
	g.moving = false
	s.asks.up.Redirected(&g.Grant, lo, hi, count)
}

// Moved lets the peer start to write to the new memory.
func (s *Grants) Moved(x *provider.Grant) {
	if g := s.of(x); g != nil {
		s.asks.conn.SayMoved(g.Slot)
	}
}

// End ends all grants, because the connection has ended. It returns the grants for which the
// caller must still call Up.Released.
func (s *Grants) End() (untold []*provider.Grant) {
	for _, g := range s.all {
		if g == nil {
			continue
		}
		s.free(g)
		if g.state != taken && g.state != giving {
			untold = append(untold, &g.Grant)
		}
	}
	s.all, s.unused = nil, nil
	return untold
}
