package via

import (
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Writes behind a redirection
//
// What importers have written to the old memory, the exporter copies to the new one, when it
// hears from each how much that is. A write to the new memory, which goes there without the
// exporter's doing, could come before, and the copy would put old data over it, of this
// importer or of another. So importers hold their writes to the region until the exporter has
// heard from all.

// held is what a region's writes wait in, in order.
type held struct {
	sends  []*send
	leaves bool // the region is given up behind them
}

// hold has the writes to a region wait.
func (k *conn) hold(r *provider.Region) {
	if k.held == nil {
		k.held = map[*provider.Region]*held{}
	}
	k.held[r] = &held{}
}

// moved: the exporter has copied what went to the old memory.
func (k *conn) moved(m *asking.Reader) {
	r := k.regions[m.U32()]
	if r == nil {
		return // it was released before it heard of the redirection
	}
	h := k.held[r]
	if h == nil {
		m.Bad = true
		return
	}
	delete(k.held, r)
	for _, s := range h.sends {
		if k.state == dead {
			k.end(s, r.Err)
			continue
		}
		k.post(s)
	}
	if h.leaves && k.state != dead {
		k.leave(r)
	}
}

// endHeld ends the writes that wait, because the connection has ended.
func (k *conn) endHeld(why error) {
	for r, h := range k.held {
		delete(k.held, r)
		for _, s := range h.sends {
			k.end(s, why)
		}
	}
}
