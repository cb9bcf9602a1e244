package via

import (
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Writes after a redirection
//
// The exporter copies the data that importers have written from the old memory to the new memory.
// It does so when it knows from each importer how much that is. Importers write to the new memory
// without the exporter. A write could arrive before the copy, and the copy would then overwrite it
// with old data, of this importer or another one. So importers hold their writes to the region
// until the exporter has reports from all of them.

// held is the queue of a region's waiting writes, in order.
type held struct {
	sends  []*send
	leaves bool // the region is given up behind them
}

// hold makes the writes to a region wait.
func (k *conn) hold(r *provider.Region) {
	if k.held == nil {
		k.held = map[*provider.Region]*held{}
	}
	k.held[r] = &held{}
}

// moved handles the message that the exporter has copied the data of the old memory.
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

// endHeld ends the waiting writes, because the connection has ended.
func (k *conn) endHeld(why error) {
	for r, h := range k.held {
		delete(k.held, r)
		for _, s := range h.sends {
			k.end(s, why)
		}
	}
}
