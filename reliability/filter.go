package reliability

import "github.com/bobnet-go/bobnet/ethertype"

// filterWindow is how far, in frames, a frame may be overtaken on the
// unreliable level and still be taken, and how many may be missing before one that
// is taken at once.
const filterWindow = filterWords * 64

const filterWords = 4

// filterRun is how many frames outside the window have to follow each other until
// the window moves to them.
const filterRun = 4

// Filter takes each frame at most once on the unreliable level, where nothing
// is sent again and gaps stay. Its window slides with the newest frame.
//
// A frame from outside the window is refused, because one with a wrong number would
// have all good ones that follow refused. When several come one after another, each a
// little ahead of the one before, and none from within the window, then it is the
// window that is wrong, after a long gap for example, and moves there (the reasoning of
// RFC 3550, appendix A.1). A network that repeats several old frames in a row while
// nothing new comes would have them taken again; Ethernet does not.
//
// The zero Filter needs Init. It must not be used by two goroutines at a time.
type Filter struct {
	top  ethertype.Seq // one past the newest taken
	seen [filterWords]uint64
	run  int           // frames outside the window that have followed each other
	last ethertype.Seq // the number of the last frame of the run
}

// Init makes f ready for a connection whose first frame from the peer has the
// number first.
func (f *Filter) Init(first ethertype.Seq) {
	*f = Filter{top: first}
	for i := range f.seen {
		f.seen[i] = ^uint64(0) // frames before the first do not exist
	}
}

// Check says whether the frame seq is to be taken: Accept, Duplicate or Ahead. Frames
// from before the window count as Duplicate, because they may be. It changes nothing.
func (f *Filter) Check(seq ethertype.Seq) Verdict {
	d := seq.Sub(f.top)
	switch {
	case d >= filterWindow:
		return Ahead
	case d < -filterWindow || d < 0 && f.taken(seq):
		return Duplicate
	}
	return Accept
}

func (f *Filter) taken(seq ethertype.Seq) bool {
	return f.seen[seq/64%filterWords]>>(seq%64)&1 != 0
}

// Accept records that the frame seq, for which the last Check returned Accept, has been
// taken.
func (f *Filter) Accept(seq ethertype.Seq) {
	f.run = 0
	for !seq.Less(f.top) {
		f.seen[f.top/64%filterWords] &^= 1 << (f.top % 64)
		f.top++
	}
	f.seen[seq/64%filterWords] |= 1 << (seq % 64)
}

// Refuse records that the frame seq has come, for which the last Check did not return
// Accept. It reports whether the window has moved to it because filterRun frames outside
// the window have followed each other. The frame has then been taken, as the first one of
// a connection is, and nothing is known of those before it.
func (f *Filter) Refuse(seq ethertype.Seq) (moved bool) {
	if d := seq.Sub(f.top); -filterWindow <= d && d < filterWindow {
		f.run = 0
		return false
	}
	if ahead := seq.Sub(f.last); f.run == 0 || ahead <= 0 || ahead > filterWindow {
		f.run = 0
	}
	f.run++
	f.last = seq
	if f.run < filterRun {
		return false
	}
	f.Init(seq)
	f.Accept(seq)
	return true
}
