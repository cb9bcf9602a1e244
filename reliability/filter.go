package reliability

import "github.com/bobnet-go/bobnet/ethertype"

// filterWindow is how far, in frames, a frame may be overtaken on the
// unreliable level and still be taken.
const filterWindow = filterWords * 64

const filterWords = 4

// Filter takes each frame at most once on the unreliable level, where nothing
// is sent again and gaps stay. Its window slides with the newest frame; what
// arrives from before the window counts as a duplicate, since nobody can tell.
// The zero Filter needs Init. It must not be used by two goroutines at a time.
type Filter struct {
	top  ethertype.Seq // one past the newest taken
	seen [filterWords]uint64
}

// Init makes f ready for a connection whose first frame from the peer has the
// number first.
func (f *Filter) Init(first ethertype.Seq) {
	*f = Filter{top: first}
	for i := range f.seen {
		f.seen[i] = ^uint64(0) // frames before the first do not exist
	}
}

// Check says whether the frame seq is to be taken: Accept or Duplicate. It
// changes nothing.
func (f *Filter) Check(seq ethertype.Seq) Verdict {
	d := f.top.Sub(seq)
	if d > filterWindow || d > 0 && f.seen[seq/64%filterWords]>>(seq%64)&1 != 0 {
		return Duplicate
	}
	return Accept
}

// Accept records that the frame seq, of which Check said Accept at last, has
// been taken.
func (f *Filter) Accept(seq ethertype.Seq) {
	if skip := seq.Sub(f.top); skip >= filterWindow {
		f.seen = [filterWords]uint64{}
		f.top = seq + 1
	}
	for !seq.Less(f.top) {
		f.seen[f.top/64%filterWords] &^= 1 << (f.top % 64)
		f.top++
	}
	f.seen[seq/64%filterWords] |= 1 << (seq % 64)
}
