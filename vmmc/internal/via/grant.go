package via

import (
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Open implements asking.Conn: it makes mem writable for the peer alone, under a handle that is
// never reused. Empty memory needs no registration.
func (k *conn) Open(mem []byte) (asking.Place, error) {
	if len(mem) == 0 {
		return asking.Place{}, nil
	}
	h, err := k.p.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: k.tag, EnableRDMAWrite: true, Once: true})
	return asking.Place{Addr: vipl.VirtualAddress(mem), Key: uint32(h)}, err
}

// Shut implements asking.Conn.
func (k *conn) Shut(at asking.Place) {
	if at.Key != 0 {
		k.p.nic.DeregisterMem(vipl.MemHandle(at.Key))
	}
}

// Free implements asking.Conn: handles are never reused.
func (k *conn) Free(asking.Place) {}

// notified passes a notification on. A notification for an invalid slot only costs its sender the
// credit.
func (k *conn) notified(slot uint32) {
	if k.state == dead {
		return
	}
	if k.state == accepting {
		k.state = live
	}
	g, taken := k.Grants.BySlot(slot)
	if g != nil && !taken {
		k.p.up.Notified(g)
		return
	}
	if g == nil {
		k.p.count.Violations++
	}
	k.oweNote++
	k.sendWaiting()
}

// Handled implements provider.Provider.
func (p *Provider) Handled(g *provider.Grant) {
	k := g.Link.(*conn)
	if k.state != dead {
		k.oweNote++
		k.sendWaiting()
	}
}
