package mesh

import (
	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// A rank has many buffers for each other rank, most of them idle. So the state of a buffer in
// addition to its memory is small: a receive has only its descriptor, and a send has one only while
// it is in progress.

// Recv is a receive, with its memory.
type Recv = channel.Receive[struct{}]

// Send is the descriptor of a send in progress, with the number of its buffer.
type Send struct {
	Buffer int
	segs   [2]vipl.Segment
	desc   vipl.Descriptor
}

// sendsAtOnce is the number of send descriptors that are allocated together.
const sendsAtOnce = 8

// PostSend sends a message that lies in a buffer, and may continue in the heap. The descriptor
// belongs to the layer until its completion is passed to Sent.
func (b *Base) PostSend(vi *vipl.VI, buffer int, later bool, segs ...vipl.Segment) error {
	if len(b.sends) == 0 {
		more := make([]Send, sendsAtOnce)
		for i := range more {
			b.sends = append(b.sends, &more[i])
		}
	}
	s := b.sends[len(b.sends)-1]
	s.Buffer = buffer
	s.desc = vipl.Descriptor{Segs: s.segs[:copy(s.segs[:], segs)], Op: vipl.OpSend, AckNow: len(segs) > 1, Context: s} // Sync waits for the heap
	post := (*vipl.VI).PostSend
	if later {
		post = seam.PostLate
	}
	if err := post(vi, &s.desc); err != nil {
		return err
	}
	b.sends = b.sends[:len(b.sends)-1]
	return nil
}

// Gathered reports whether the message continues in the heap.
func (s *Send) Gathered() bool { return len(s.desc.Segs) > 1 }

// Sent releases the descriptor of a completed send, and returns the number of its buffer.
func (b *Base) Sent(s *Send) (buffer int) {
	b.sends = append(b.sends, s)
	return s.Buffer
}

// Slabs is the memory of buffers by rank and kind of VI. The memory of a rank is allocated in one
// piece, because each piece occupies whole pages.
type Slabs struct {
	sizes []int // by kind
	ranks [][]byte
}

// NewSlabs returns slabs of these sizes for each rank.
func NewSlabs(procs int, sizes ...int) Slabs {
	return Slabs{sizes: sizes, ranks: make([][]byte, procs)}
}

// Of returns the memory for a kind of VI to a rank.
func (s *Slabs) Of(rank, kind int) []byte {
	before, all := 0, 0
	for k, n := range s.sizes {
		if all += n; k < kind {
			before += n
		}
	}
	if s.ranks[rank] == nil {
		s.ranks[rank] = make([]byte, all)
	}
	return s.ranks[rank][before:][:s.sizes[kind]:s.sizes[kind]]
}
