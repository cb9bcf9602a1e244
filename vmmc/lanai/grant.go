package lanai

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Open implements asking.Conn: it gives mem frames that the peer may write.
func (k *conn) Open(mem []byte) (asking.Place, error) {
	h := k.p.h
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	offset := pageOffset(mem)
	r, ok := h.frames.take(k.p, mem)
	if !ok {
		return asking.Place{}, fmt.Errorf("%w: the node has no %d pages in a row (Config.Memory)", provider.ErrNoRoom, pagesOf(offset, uint64(len(mem))))
	}
	for i := range r.n {
		h.prog.flags[r.first+i] = frameWrite | frameNotify
	}
	return asking.Place{Addr: uint64(offset), Key: r.first, Pages: r.n}, nil
}

// Shut implements asking.Conn. The numbers of the frames stay taken.
func (k *conn) Shut(at asking.Place) {
	h := k.p.h
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	h.frames.close(run{at.Key, at.Pages})
	clear(h.prog.flags[at.Key:][:at.Pages])
}

// Free implements asking.Conn. After the end of the connection the frames keep their numbers until
// the peer has said that nothing more comes.
func (k *conn) Free(at asking.Place) {
	h, r := k.p.h, run{at.Key, at.Pages}
	h.host.Engine.Lock()
	defer h.host.Engine.Unlock()
	if !k.ended || k.silent || !k.holds() {
		h.frames.free(r)
		return
	}
	h.kept = append(h.kept, kept{r, k.node, k.at, k.p.port})
	h.hang(k.node, 1, 0)
}
