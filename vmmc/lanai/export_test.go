package lanai

// Forge has a process of the host write a request of its own making into its send queue:
// short or long, of size octets, from a virtual address, to a proxy address.
func (h *Host) Forge(process uint32, short bool, size int, at uint64, proxy uint32) {
	p := h.of(process)
	h.eng.Lock()
	defer h.eng.Unlock()
	r := request{number: p.next, short: short, size: size, at: at, proxy: proxy}
	p.next = after(p.next)
	r.write(p.page)
}

// Scribble has a process fill its page with an octet, and ring.
func (h *Host) Scribble(process uint32, octet byte) {
	p := h.of(process)
	h.eng.Lock()
	defer h.eng.Unlock()
	b := make([]byte, Slots*slotSize)
	for i := range b {
		b[i] = octet
	}
	_ = p.page.Write(0, b)
	p.page.Ring()
}

func (h *Host) of(process uint32) *Process {
	for _, p := range h.procs {
		if p.cfg.Process == process {
			return p
		}
	}
	return nil
}
