package mplite

// Messages of a rank to itself never touch the network. Small ones are
// buffered in the spill pool, so that the send completes at once; large and
// synchronous ones wait in the matcher, their payload where it lies.

// sendSelf begins a send to this rank itself.
func (w *world) sendSelf(r *request) {
	w.stats.SelfMessages++
	if recv := w.match.arrive(&r.env); recv != nil {
		w.deliver(recv, r.env.tag, r.env.src, r.buf, w.order, r.typ.sig)
		w.complete(r, nil)
		return
	}
	var in *inbound
	if r.flags&flagSync == 0 && len(r.buf) <= w.cfg.EagerSize {
		in = w.spill.get(r.buf)
	}
	if in != nil {
		w.complete(r, nil)
	} else {
		in = w.spill.node()
		in.self, r.self = r, in
		r.state = sendSelf
	}
	in.env, in.kind, in.flags, in.sig, in.size = r.env, kindEager, w.order, r.typ.sig, uint64(len(r.buf))
	w.keepMessage(in)
}

// takeSelf gives a waiting send to the receive r.
func (w *world) takeSelf(r *request, in *inbound) {
	send := in.self
	w.deliver(r, in.env.tag, in.env.src, send.buf, w.order, send.typ.sig)
	w.spill.put(in)
	w.complete(send, nil)
}
