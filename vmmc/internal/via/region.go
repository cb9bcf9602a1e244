package via

import (
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// granted handles a granted import. If no caller wants it any more, it releases the import at once.
func (k *conn) granted(r *asking.Reader) {
	seq := r.U32()
	g := &provider.Region{Owner: k.peer, Link: k, Slot: r.U32(), Addr: r.U64(), Key: r.U32(), Size: r.U64()}
	if r.Bad || k.regions[g.Slot] != nil {
		r.Bad = true
		return
	}
	a := k.Asks.Granted(seq)
	if a == nil {
		k.say(message(sayReleased, g.Slot))
		return
	}
	k.regions[g.Slot] = g
	g.Ask, g.ID, g.Lo = a, a.ID, g.Size
	a.Region = g
	k.p.up.Answered(a)
}

// lose ends a region for the process.
func (k *conn) lose(r *provider.Region, why error) {
	if r.Err == nil {
		r.Err = why
		k.p.up.Lost(r)
	}
}

// revoked answers a revocation. Posted writes arrive before the answer, because both use the same
// ordered connection.
func (k *conn) revoked(r *provider.Region) {
	k.lose(r, provider.ErrRevoked)
	k.leave(r)
}

// leave notifies the exporter, after the posted writes, that no more follow.
func (k *conn) leave(r *provider.Region) {
	if k.regions[r.Slot] != r {
		return
	}
	if h := k.held[r]; h != nil {
		h.leaves = true
		return
	}
	delete(k.regions, r.Slot)
	k.notes.Keep(func(slot *uint32) bool { return *slot != r.Slot }) // they would meet another import's
	k.say(message(sayReleased, r.Slot))
}

// Release implements provider.Provider.
func (p *Provider) Release(r *provider.Region) {
	k := r.Link.(*conn)
	if r.Err == nil {
		r.Err = provider.ErrReleased
	}
	if k.state != dead {
		k.leave(r)
	}
}

// redirect makes later writes go to another place.
func (k *conn) redirect(m *asking.Reader) {
	slot, at, key := m.U32(), m.U64(), m.U32()
	r := k.regions[slot]
	switch {
	case r == nil:
		return // it has been released
	case k.held[r] != nil: // the last time is not over
		m.Bad = true
		return
	}
	k.hold(r)
	r.Addr, r.Key = at, key
	b := put64(put64(message(sayRedirected, slot), r.Lo), r.Hi)
	k.say(put32(b, r.Count))
	r.Lo, r.Hi, r.Count = r.Size, 0, 0
}

// send is one descriptor with its memory.
type send struct {
	mem    []byte
	handle vipl.MemHandle // of mem
	desc   vipl.Descriptor
	segs   [vipl.MaxSegments]vipl.Segment
	pinned int  // segments of the program's memory
	late   bool // the engine's next turn sends it
	region *provider.Region
	token  any
}

const (
	inline = 256 // bytes of a record's own memory, at least a message
	slab   = 32  // records made at a time
)

// record returns a free record.
func (k *conn) record() (*send, error) {
	if len(k.spare) == 0 {
		mem := make([]byte, slab*inline)
		h, err := k.p.nic.RegisterMem(mem, &vipl.MemAttributes{Ptag: k.tag})
		if err != nil {
			return nil, err
		}
		k.slabs = append(k.slabs, h)
		records := make([]send, slab)
		for i := range records {
			records[i].mem, records[i].handle = mem[i*inline:][:inline:inline], h
			k.spare = append(k.spare, &records[i])
		}
	}
	last := len(k.spare) - 1
	s := k.spare[last]
	k.spare[last], k.spare = nil, k.spare[:last]
	return s, nil
}

// copied makes s send a copy of b.
func (s *send) copied(b []byte) {
	s.segs[0] = vipl.Segment{Data: s.mem[:copy(s.mem, b)], Handle: s.handle}
	s.desc = vipl.Descriptor{Segs: s.segs[:1], Context: s}
}

// recycle frees a record that is not posted.
func (k *conn) recycle(s *send) {
	for i := range s.pinned {
		k.p.nic.DeregisterMem(s.segs[i].Handle)
		s.segs[i] = vipl.Segment{}
	}
	s.pinned, s.late, s.region, s.token = 0, false, nil, nil
	k.spare = append(k.spare, s)
}

// end reports the result of a send.
func (k *conn) end(s *send, err error) {
	token := s.token
	if s.region != nil {
		s.region.Busy--
		k.busy--
	}
	k.recycle(s)
	if token != nil {
		k.p.up.Done(token, err)
	}
}

// post queues s, and posts it at once if the VI's queue has room.
func (k *conn) post(s *send) {
	k.flying.Push(s)
	k.push()
}

// push posts as many queued sends as the VI's queue has room for.
func (k *conn) push() {
	for k.posted < k.flying.Len() && k.posted < k.p.cfg.Sends {
		s, post := *k.flying.At(k.posted), (*vipl.VI).PostSend
		if s.late {
			post = seam.PostLate
		}
		if err := post(k.vi, &s.desc); err != nil {
			k.fail(err)
			return
		}
		k.posted++
	}
}

// sent handles the completion of the oldest send. Sends complete in order.
func (k *conn) sent(s *send) {
	k.posted--
	k.flying.Pop()
	k.end(s, nil)
	if k.state != dead {
		k.push()
	}
}

// Post implements provider.Provider.
func (p *Provider) Post(w *provider.Write) error {
	r := w.Region
	k := r.Link.(*conn)
	switch {
	case r.Err != nil:
		return r.Err
	case !w.More && (k.busy >= p.cfg.Sends || k.notes.Len() >= p.cfg.Sends):
		return provider.ErrFull
	}
	s, err := k.record()
	if err != nil {
		return err
	}
	if w.Copy {
		s.segs[0] = vipl.Segment{Data: w.Gather(s.mem), Handle: s.handle}
		s.desc = vipl.Descriptor{Segs: s.segs[:1], Context: s}
		p.count.Copied++
	} else if err := k.pin(s, w); err != nil {
		k.recycle(s)
		return err
	}
	s.desc.Op, s.desc.AckNow, s.late = vipl.OpRDMAWrite, w.Await, w.Later
	s.desc.Remote = vipl.RemoteSegment{Addr: r.Addr + w.Offset, Handle: vipl.MemHandle(r.Key)}
	if w.Notify {
		k.notify(s, r)
	}
	if w.Size > 0 {
		r.Lo, r.Hi = min(r.Lo, w.Offset), max(r.Hi, w.Offset+uint64(w.Size))
		r.Count++
	} else if !s.desc.HasImmediate { // a notification that waits
		k.recycle(s)
		if w.Token != nil {
			p.up.Done(w.Token, nil)
		}
		return nil
	}
	s.region, s.token = r, w.Token
	r.Busy++
	k.busy++
	p.count.Writes++
	p.count.Bytes += uint64(w.Size)
	if h := k.held[r]; h != nil {
		h.sends = append(h.sends, s)
		return nil
	}
	k.post(s) // if that ends the connection, Up.Done has been told
	return nil
}

// notify adds a notification to s if there is credit. Otherwise it records that one must follow.
func (k *conn) notify(s *send, r *provider.Region) {
	if k.mayNote > 0 && k.notes.Len() == 0 && k.held[r] == nil {
		k.mayNote--
		k.p.count.Notes++
		s.desc.HasImmediate, s.desc.Immediate = true, r.Slot
		return
	}
	k.p.count.NotesWaited++
	k.notes.Push(r.Slot)
}

// note sends a notification without data.
func (k *conn) note(slot uint32) {
	s, err := k.record()
	if err != nil {
		k.fail(err)
		return
	}
	k.mayNote--
	k.p.count.Notes++
	s.desc = vipl.Descriptor{Op: vipl.OpRDMAWrite, HasImmediate: true, Immediate: slot, Context: s}
	k.post(s)
}

// pin makes s send w's data from their own memory, without a copy.
func (k *conn) pin(s *send, w *provider.Write) error {
	skip, left := w.Skip, w.Size
	for _, b := range w.Data {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		if left == 0 || s.pinned == len(s.segs) {
			break
		}
		b = b[skip:]
		b = b[:min(len(b), left)]
		skip, left = 0, left-len(b)
		h, err := k.p.nic.RegisterMem(b, &vipl.MemAttributes{Ptag: k.tag})
		if err != nil {
			return err
		}
		s.segs[s.pinned] = vipl.Segment{Data: b, Handle: h}
		s.pinned++
	}
	s.desc = vipl.Descriptor{Segs: s.segs[:s.pinned], Context: s}
	return nil
}
