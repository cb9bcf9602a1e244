package via

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

type addr = ethertype.Addr

// States of a Grant.
const (
	granted  uint8 = iota
	revoking       // the importer has been told
	taken          // the memory was taken without the importer, who may use the slot yet
)

// register makes mem known to the peer alone. Nothing can be written to no memory, which
// needs no registration.
func (k *conn) register(mem []byte) (vipl.MemHandle, uint64, error) {
	if len(mem) == 0 {
		return 0, 0, nil
	}
	h, err := k.p.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: k.tag, EnableRDMAWrite: true, Once: true})
	return h, vipl.VirtualAddress(mem), err
}

// Allow implements provider.Provider.
func (p *Provider) Allow(q *provider.Request, mem []byte, export any) (*provider.Grant, error) {
	k := q.Link.(*conn)
	if q.Gone {
		return nil, provider.ErrPeer
	}
	h, at, err := k.register(mem)
	if err != nil {
		p.Deny(q, provider.ReasonResource)
		return nil, err
	}
	k.asks.Allowed(q)
	slot := uint32(len(k.grants))
	if last := len(k.unused) - 1; last >= 0 {
		slot, k.unused = k.unused[last], k.unused[:last]
	} else {
		k.grants = append(k.grants, nil)
	}
	g := &provider.Grant{To: k.peer, Export: export, Link: k, Slot: slot, Mem: mem, Key: uint32(h)}
	k.grants[slot] = g
	k.say(put64(append32(put64(message(sayGrant, q.Seq, g.Slot), at), g.Key), uint64(len(mem))))
	return g, nil
}

func append32(b []byte, n uint32) []byte {
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// forget takes the memory of a grant from the peer.
func forget(n *vipl.NIC, g *provider.Grant) {
	for _, key := range []*uint32{&g.Key, &g.OldKey} {
		if *key != 0 {
			n.DeregisterMem(vipl.MemHandle(*key))
			*key = 0
		}
	}
}

// of returns the grant's connection, or nil if it is none any more.
func of(g *provider.Grant) *conn {
	k := g.Link.(*conn)
	if k.state == dead || int(g.Slot) >= len(k.grants) || k.grants[g.Slot] != g {
		return nil
	}
	return k
}

// Revoke implements provider.Provider.
func (p *Provider) Revoke(g *provider.Grant, atOnce bool) {
	k := of(g)
	switch {
	case k == nil || g.State == taken:
	case atOnce:
		g.State = taken
		forget(p.nic, g)
		p.up.Released(g)
	case g.State != revoking:
		g.State = revoking
		k.say(message(sayRevoke, g.Slot))
	}
}

// released: the importer's writes have all come before this message.
func (k *conn) released(slot uint32) {
	if int(slot) >= len(k.grants) || k.grants[slot] == nil {
		return
	}
	g := k.grants[slot]
	k.grants[slot] = nil
	k.unused = append(k.unused, slot)
	forget(k.p.nic, g)
	if g.State != taken {
		k.p.up.Released(g)
	}
}

// Redirect implements provider.Provider.
func (p *Provider) Redirect(g *provider.Grant, mem []byte) error {
	k := of(g)
	if k == nil || g.State == taken {
		return provider.ErrPeer
	}
	if g.OldKey != 0 {
		return provider.ErrFull // the importer has not answered the last time
	}
	h, at, err := k.register(mem)
	if err != nil {
		return err
	}
	g.OldKey, g.Before, g.Key, g.Mem = g.Key, g.Mem, uint32(h), mem
	k.say(append32(put64(message(sayRedirect, g.Slot), at), g.Key))
	return nil
}

// Moved implements provider.Provider.
func (p *Provider) Moved(g *provider.Grant) {
	if k := of(g); k != nil {
		k.say(message(sayMoved, g.Slot))
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
	if g.OldKey == 0 && len(g.Mem) > 0 {
		r.Bad = true
		return
	}
	if g.OldKey != 0 {
		k.p.nic.DeregisterMem(vipl.MemHandle(g.OldKey))
		g.OldKey = 0
	}
	k.p.up.Redirected(g, lo, hi, count)
}

// notified hands on a notification; one for a slot that is none costs its sender the
// credit's way back, and nothing else.
func (k *conn) notified(slot uint32) {
	if k.state == dead {
		return
	}
	if k.state == accepting {
		k.state = live
	}
	known := int(slot) < len(k.grants) && k.grants[slot] != nil
	if !known || k.grants[slot].State == taken {
		if !known {
			k.p.count.Violations++
		}
		k.oweNote++
		k.sendWaiting()
		return
	}
	k.p.up.Notified(k.grants[slot])
}

// Handled implements provider.Provider.
func (p *Provider) Handled(g *provider.Grant) {
	k := g.Link.(*conn)
	if k.state != dead {
		k.oweNote++
		k.sendWaiting()
	}
}
