package rdma

import (
	"context"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// Get starts RDMA reads.
func (l *Layer) Get(ctx context.Context, proc int, dst []byte, off uint64) error {
	for len(dst) > 0 {
		n := min(len(dst), part)
		if err := l.read(ctx, l.peers[proc], dst[:n], off); err != nil {
			return err
		}
		dst, off = dst[n:], off+uint64(n)
	}
	return nil
}

func (l *Layer) read(ctx context.Context, p *peer, dst []byte, off uint64) error {
	s, err := l.acquire(ctx, p, opGet, false)
	if err != nil {
		return err
	}
	if l.InHeap(dst) {
		s.segs[0] = vipl.Segment{Data: dst, Handle: l.handle}
	} else if len(dst) <= bounce {
		s.dst = dst
		s.segs[0] = vipl.Segment{Data: s.mem[:len(dst)], Handle: s.home}
	} else if err := l.register(s, dst); err != nil {
		return err
	}
	l.Did.Reads++
	l.Count.Outstanding++
	s.desc = vipl.Descriptor{Op: vipl.OpRDMARead, Remote: p.at(off), Context: s}
	if err := l.postOperation(s, 1); err != nil {
		l.Count.Outstanding--
		return err
	}
	return nil
}

// at returns the remote address of an offset in a rank's heap.
func (p *peer) at(off uint64) vipl.RemoteSegment {
	return vipl.RemoteSegment{Addr: p.base + off, Handle: p.handle}
}

// register registers memory of the program for the duration of an operation.
func (l *Layer) register(s *slot, b []byte) (err error) {
	if s.user, err = l.NIC.RegisterMem(b, &l.own); err != nil {
		s.user = 0
		l.release(s)
		return err
	}
	s.segs[0] = vipl.Segment{Data: b, Handle: s.user}
	return nil
}

// Put starts RDMA writes.
func (l *Layer) Put(ctx context.Context, proc int, off uint64, src []byte) error {
	return l.writes(ctx, proc, off, src, opPut)
}

// Store starts RDMA writes with immediate data.
func (l *Layer) Store(ctx context.Context, proc int, off uint64, src []byte) error {
	return l.writes(ctx, proc, off, src, opStore)
}

func (l *Layer) writes(ctx context.Context, proc int, off uint64, src []byte, what uint8) error {
	for len(src) > 0 {
		n := min(len(src), part)
		if err := l.write(ctx, l.peers[proc], off, src[:n], what); err != nil {
			return err
		}
		src, off = src[n:], off+uint64(n)
	}
	return nil
}

func (l *Layer) write(ctx context.Context, p *peer, off uint64, src []byte, what uint8) error {
	s, err := l.acquire(ctx, p, what, what == opStore)
	if err != nil {
		return err
	}
	if len(src) <= layer.MaxCopied || len(src) <= bounce && !l.InHeap(src) {
		s.segs[0] = vipl.Segment{Data: s.mem[:copy(s.mem, src)], Handle: s.home}
	} else {
		if l.InHeap(src) {
			s.segs[0] = vipl.Segment{Data: src, Handle: l.handle}
		} else if err := l.register(s, src); err != nil {
			return err
		}
		if what == opStore {
			s.source = true
			l.Count.Sources++
		}
	}
	l.Did.Writes++
	s.desc = vipl.Descriptor{Op: vipl.OpRDMAWrite, Remote: p.at(off), Context: s, Unordered: len(src) > bounce, AckNow: s.source}
	if what == opStore {
		s.desc.HasImmediate, s.desc.Immediate = true, uint32(len(src))
		return l.postOperation(s, 1)
	}
	l.Count.Outstanding++
	p.puts++
	if err := l.postOperation(s, 1); err != nil {
		l.Count.Outstanding--
		p.puts--
		return err
	}
	return nil
}

// ask reads a byte of a rank's heap after the puts to it.
func (l *Layer) ask(p *peer) {
	p.asking = true
	s := &p.prompt
	s.segs[0] = vipl.Segment{Data: s.mem, Handle: s.home}
	s.desc = vipl.Descriptor{Op: vipl.OpRDMARead, Remote: p.at(0), Context: s}
	l.post(s, 1) // an error affects the puts, too
}

// Purposes of a send.
const (
	opMessage = iota
	opTell    // returns credits
	opAsk     // triggers acknowledgements
	opGet
	opPut
	opStore
)

// slot is a send in progress, with memory for copied data.
type slot struct {
	mem  []byte
	home vipl.MemHandle // of mem
	segs [2]vipl.Segment
	desc vipl.Descriptor

	what   uint8
	p      *peer
	dst    []byte         // destination of a get's data, which are copied, or nil
	user   vipl.MemHandle // memory of the program that was registered for it, or 0
	source bool           // it counts in Counters.Sources
}

func (s *slot) init(mem []byte, handle vipl.MemHandle) {
	s.mem, s.home = mem, handle
	s.desc.Context = s
}

// makeSlots allocates the slots.
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

// acquire returns a slot for an operation with a rank, and waits until one is free. If credit is
// set, it also waits for a credit and takes it.
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

// post sends a slot. If the connection has ended, the peer has the error, and the next operation
// with this rank returns it.
func (l *Layer) post(s *slot, segs int) {
	s.desc.Segs = s.segs[:segs]
	if err := seam.PostMore(s.p.VI, &s.desc); err != nil {
		l.Broken(&s.p.End, err)
		l.release(s)
	}
}

// postOperation posts the work requests of an operation of the program. It returns the failure.
func (l *Layer) postOperation(s *slot, segs int) error {
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
