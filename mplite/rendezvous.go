package mplite

import (
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl"
)

// Rendezvous. A message beyond the receiver's eager size is announced (ready). When a
// receive matches, the receiver registers its buffer for RDMA by this sender and sends
// its address (clear). The sender writes there straight from its own memory. The write's
// immediate data names the receive and ends it. Only the network copies the data. If the
// receive was posted early, the data follows after one round trip.
//
//	sender                      receiver
//	  | ready(size, sendID) ------> |  matches
//	  | <-- clear(sendID, recvID,   |
//	  |          address, handle)   |
//	  | RDMA write ...............> |
//	  | ... immediate = recvID ...> |  done
//	done, when acknowledged
//
// Between two processes of one host the receiver may copy the message instead: see pull.go.

// maxWrite is the longest single RDMA write; longer messages take several.
const maxWrite = vipl.MaxTransferSize

// announce notifies the peer that r's message waits at this rank.
func (p *peer) announce(r *request) {
	h := header{
		kind: kindReady, flags: r.flags &^ flagSync, context: r.env.context,
		tag: r.env.tag, size: uint64(len(r.buf)), sendID: r.id, recvID: r.typ.sig, call: r.call,
	}
	p.spend(&h)
	r.state = sendReady
	st := &p.w.stats
	st.RendezvousSent++
	st.BytesSent += uint64(len(r.buf))
	var body [offerSize]byte
	p.post(&h, p.offers(r, &body))
}

// accept answers an announcement that r has been matched with. A receive that
// is too short takes what fits, so that the sender is released as usual.
func (p *peer) accept(r *request, tag int32, size uint64, sendID uint32, flags uint8, sig uint32, body []byte) {
	n := r.setStatus(tag, int32(p.rank), size, sig)
	p.w.stats.RendezvousReceived++
	r.remoteID, r.accepted, r.flags, r.remoteSig = sendID, n, flags, sig
	var o offer
	if o.parse(body); n > 0 && p.pullLater(r, o) {
		return
	}
	p.clear(r)
	p.showsLanding(size)
}

// clear asks the sender to write the message that r has accepted.
func (p *peer) clear(r *request) {
	w, n := p.w, r.accepted
	c := control{kind: kindClear, sendID: r.remoteID, recvID: r.id}
	if n > 0 {
		mem, err := p.register(r.buf[:n], true)
		if err != nil {
			r.err = fmt.Errorf("mplite: receive of %d bytes: %w", n, err)
			n = 0
		}
		r.mem = mem
	}
	if n > 0 {
		r.state, r.peer = recvClear, p
		c.size = uint64(n)
		c.target = target{addr: vipl.VirtualAddress(r.buf), handle: uint32(r.mem)}
	} else {
		w.complete(r, nil)
	}
	p.say(c)
}

// register registers buf for transfers with p, and with no other rank.
func (p *peer) register(buf []byte, writable bool) (vipl.MemHandle, error) {
	return p.w.nic.RegisterMem(buf, &vipl.MemAttributes{Ptag: p.Tag, EnableRDMAWrite: writable})
}

// find returns the request that a peer's message names, if the request waits for such a
// message from this peer. Other messages are counted and ignored.
func (p *peer) find(id uint32, states ...state) *request {
	w := p.w
	if int64(id) < int64(len(w.requests)) {
		r := w.requests[id]
		if r.peer == p {
			for _, s := range states {
				if r.state == s || r.timeWait && r.state == stateDone && s != recvClear {
					return r
				}
			}
		}
	}
	w.stats.Strays++
	return nil
}

// cleared starts the write that an announcement has been granted.
func (p *peer) cleared(h *header, body []byte) {
	w := p.w
	r := p.find(h.sendID, sendReady)
	if r == nil {
		return
	}
	if r.timeWait {
		if h.size > 0 {
			p.say(control{kind: kindNack, recvID: h.recvID})
		}
		w.endTimeWait(r)
		return
	}
	if h.size == 0 || h.size > uint64(len(r.buf)) {
		w.complete(r, nil)
		return
	}
	mem, err := p.register(r.buf[:h.size], false)
	if err != nil {
		w.complete(r, fmt.Errorf("mplite: send of %d bytes: %w", h.size, err))
		p.say(control{kind: kindNack, recvID: h.recvID})
		return
	}
	r.mem, r.accepted, r.written, r.remoteID = mem, int(h.size), 0, h.recvID
	r.remote.parse(body)
	r.state = sendWriting
	p.say(control{req: r})
}

// write posts the next part of r's payload, at most world.maxWrite bytes. The last part
// notifies the receiver.
func (p *peer) write(r *request) {
	n := min(r.accepted-r.written, p.w.maxWrite)
	to := target{addr: r.remote.addr + uint64(r.written), handle: r.remote.handle}
	r.segs[0] = vipl.Segment{Data: r.buf[r.written : r.written+n], Handle: r.mem}
	r.written += n
	p.postWrite(r, r.segs[:1], to, r.remoteID)
}

// postWrite posts a write of r's, the last one with immediate data.
func (p *peer) postWrite(r *request, segs []vipl.Segment, to target, immediate uint32) {
	d := &r.desc
	d.Op, d.Segs = vipl.OpRDMAWrite, segs
	d.Unordered = true // no other message uses the memory until this one has been received
	d.Remote = vipl.RemoteSegment{Addr: to.addr, Handle: vipl.MemHandle(to.handle)}
	d.HasImmediate, d.Immediate = r.written == r.accepted, immediate
	d.AckNow = true // Send waits for it
	p.writes++
	if err := p.VI.PostSend(d); err != nil {
		p.writes--
		p.fail(err)
		p.w.complete(r, p.err)
	}
}

// wrote takes back the descriptor of a write.
func (p *peer) wrote(r *request, d *vipl.Descriptor) {
	p.land.busy &^= r.landing
	r.landing = 0
	switch {
	case d.Status.Failed() || p.state >= peerDead:
		p.fail(p.VI.Err())
		p.w.complete(r, p.err)
	case r.written < r.accepted:
		p.write(r)
	default:
		p.w.complete(r, nil)
	}
}

// writtenTo ends the receive that a peer has written to.
func (p *peer) writtenTo(id uint32) {
	r := p.find(id, recvClear)
	if r == nil {
		return
	}
	w := p.w
	w.putRight(r.buf[:r.accepted], r.typ, r.flags, r.remoteSig)
	w.stats.BytesReceived += uint64(r.accepted)
	w.complete(r, nil)
}

// acknowledged ends a synchronous send.
func (p *peer) acknowledged(h *header) {
	p.w.endSend(p.find(h.sendID, sendSync))
}

// endSend ends a send that the receiver has answered, or nothing if r is nil.
func (w *world) endSend(r *request) {
	switch {
	case r == nil:
	case r.timeWait:
		w.endTimeWait(r)
	default:
		w.complete(r, nil)
	}
}

// refused ends a receive whose sender has given up. In a collective the cause is the
// sender's context, or a dead rank that the sender has already reported.
func (p *peer) refused(h *header) {
	r := p.find(h.recvID, recvClear)
	if r == nil {
		return
	}
	err := opError("receive", ErrCanceled, "rank %d announced a message of %d bytes with tag %d and withdrew it",
		r.status.Source, r.status.Count, r.status.Tag)
	if r.coll {
		err = cmp.Or(r.c.casualty(), r.c.log.overruled(r.env.tag), err)
	}
	p.w.complete(r, err)
}
