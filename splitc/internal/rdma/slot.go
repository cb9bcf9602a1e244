package rdma

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// What a send is for.
const (
	opMessage = iota
	opTell    // credits
	opAsk     // for acknowledgements
	opGet
	opPut
	opStore
)

// slot is a send under way, with memory for what is copied.
type slot struct {
	mem  []byte
	home vipl.MemHandle // of mem
	segs [2]vipl.Segment
	desc vipl.Descriptor

	what   uint8
	p      *peer
	dst    []byte         // where what a get has brought is copied to, or nil
	user   vipl.MemHandle // of the program's memory that was registered for it, or 0
	source bool           // counts in Counters.Sources
}

func (s *slot) init(mem []byte, handle vipl.MemHandle) {
	s.mem, s.home = mem, handle
	s.desc.Context = s
}

// makeSlots makes the slots.
func (l *Layer) makeSlots() (err error) {
	const size = max(bounce, messageSize)
	slab := make([]byte, slots*size)
	if l.slab, err = l.NIC.RegisterMem(slab, &l.own); err != nil {
		return err
	}
	all := make([]slot, slots)
	l.free = make([]*slot, 0, slots)
	for i := range all {
		all[i].init(slab[i*size:][:size], l.slab)
		l.free = append(l.free, &all[i])
	}
	return nil
}

// acquire returns a slot for an operation with a rank, and waits until one is free. With
// credit it waits for one, too, and takes it.
func (l *Layer) acquire(ctx context.Context, p *peer, what uint8, credit bool) (*slot, error) {
	if len(l.free) == 0 || credit && p.credit == 0 {
		if err := l.Await(ctx, &p.End, func() bool { return len(l.free) > 0 && (!credit || p.credit > 0) }); err != nil {
			return nil, err
		}
	}
	if l.Err != nil {
		return nil, l.Err
	}
	if p.Gone != nil {
		return nil, l.Lost(&p.End)
	}
	if credit {
		p.credit--
	}
	s := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	s.what, s.p = what, p
	return s, nil
}

// post sends what a slot has. If the connection has ended, the peer says so, and who asks
// this rank next hears of it.
func (l *Layer) post(s *slot, segs int) {
	s.desc.Segs = s.segs[:segs]
	if err := seam.PostMore(s.p.VI, &s.desc); err != nil {
		l.Broken(&s.p.End, err)
		l.release(s)
	}
}

// start is post for an operation of the program, which hears of the failure itself.
func (l *Layer) start(s *slot, segs int) error {
	p := s.p
	if l.post(s, segs); p.Gone != nil {
		return l.Lost(&p.End)
	}
	return nil
}

// release frees a slot.
func (l *Layer) release(s *slot) {
	if s.user != 0 {
		l.NIC.DeregisterMem(s.user)
		s.user = 0
	}
	if s.source {
		s.source = false
		l.Count.Sources--
	}
	s.dst = nil
	switch s.what {
	case opTell:
		s.p.telling = false
		return
	case opAsk:
		s.p.asking = false
		return
	}
	l.free = append(l.free, s)
}
