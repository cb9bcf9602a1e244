package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Open implements asking.Conn: it assigns frames to mem that the peer may write.
func (k *conn) Open(mem []byte) (asking.Place, error) {
	h, to := k.p.h, importer{k.node, k.at.Port}
	if err := k.p.Reaches(mem); err != nil {
		return asking.Place{}, err
	}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	offset := pageOffset(mem)
	r, ok := k.p.frames.allocate(&k.p.seat, mem, to)
	switch {
	case !ok:
		return asking.Place{}, fmt.Errorf("%w: the node has no %d consecutive free pages (Config.Memory)", provider.ErrNoRoom, pagesOf(offset, uint64(len(mem))))
	case h.far != nil:
		k.p.guest.grant(k, r, mem)
	default:
		h.prog.allow(r)
	}
	return asking.Place{Addr: uint64(offset), Key: r.first, Pages: r.n}, nil
}

// Shut implements asking.Conn. The numbers of the frames stay assigned.
func (k *conn) Shut(at asking.Place) {
	h, r := k.p.h, run{at.Key, at.Pages}
	if h.far != nil {
		k.p.guest.shut(r)
		return
	}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	h.shut(r)
}

// allow lets the importers of frames write to them.
func (p *program) allow(r run) {
	for i := range r.n {
		p.flags[r.first+i] = frameWrite | frameNotify
	}
}

// shut prevents further writes to frames.
func (h *Card) shut(r run) {
	h.frames.close(r)
	if h.prog.ready {
		clear(h.prog.flags[r.first:][:r.n])
	}
}

// Free implements asking.Conn. After the end of the connection the frames keep their numbers until
// the peer has confirmed that it sends nothing more.
func (k *conn) Free(at asking.Place) {
	h, r := k.p.h, run{at.Key, at.Pages}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	if !k.ended || k.silent || !k.holds() {
		k.p.frames.free(r)
		return
	}
	h.kept = append(h.kept, kept{run: r, frames: k.p.frames, node: k.node, peer: k.at, port: k.p.port})
	h.hang(k.node, 1, 0)
}
