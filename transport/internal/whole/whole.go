// Package whole is what wrappers of links share that look at long frames
// (transport.LongLink): they take each whole from the link within, and lend its
// beginning to their caller, who fetches the rest from them.
package whole

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
)

// Frames are the long frames of a wrapped link.
type Frames struct {
	link transport.LongLink // the wrapped link, or nil
	room []byte             // for a frame that has arrived; made for the first one
	part [1][]byte
	lent []byte // the last view's frame, if it is a long one
	lost int    // bytes that the last view lacks and the wrapped link has lost
}

// Of returns the long frames of link, which need not have any.
func Of(link transport.Link) Frames {
	l, _ := link.(transport.LongLink)
	return Frames{link: l}
}

// Start is the wrapper's StartLong: what the wrapped link says.
func (f *Frames) Start() bool { return f.link != nil && f.link.StartLong() }

// Link returns the wrapped link, nil if it is no transport.LongLink.
func (f *Frames) Link() transport.LongLink { return f.link }

// Take returns a frame that has arrived, the last of a batch, of which the wrapped
// link may not have given everything yet; nil if it has lost the rest. The frame is
// valid until the next call.
func (f *Frames) Take(view []byte) []byte {
	rest := 0
	if f.link != nil {
		rest = f.link.Rest()
	}
	if rest == 0 {
		return view
	}
	size := len(view) + rest
	if cap(f.room) < size {
		f.room = make([]byte, max(size, framing.LongMTU+ethertype.EthernetSize))
	}
	frame := f.room[:size]
	copy(frame, view[:ethertype.HeaderSize])
	f.part[0] = frame[ethertype.HeaderSize:]
	if !f.link.Fetch(ethertype.HeaderSize, f.part[:]) {
		return nil
	}
	return frame
}

// Lend returns the view of a long frame, which is the last that the wrapper's Recv
// returns. The frame must stay as it is until Return.
func (f *Frames) Lend(frame []byte) (view []byte) {
	f.lent = frame
	return frame[:transport.LongBegin]
}

// Lent reports whether the last view is of a long frame.
func (f *Frames) Lent() bool { return f.lent != nil }

// Return ends the last view, when Recv is called again.
func (f *Frames) Return() { f.lent, f.lost = nil, 0 }

// See is for wrappers that look at frames and leave them as they are. It takes what
// the Recv of the wrapped link has returned, and returns the last frame whole; the
// last view is as the wrapper's caller gets it. Of a frame whose rest is lost it
// returns the view, and the caller will learn from Fetch.
func (f *Frames) See(views [][]byte) (last []byte) {
	f.Return()
	if len(views) == 0 {
		return nil
	}
	view := &views[len(views)-1]
	if f.link == nil || f.link.Rest() == 0 {
		return *view
	}
	rest := f.link.Rest()
	if last = f.Take(*view); last == nil {
		f.lost = rest
		return *view
	}
	*view = f.Lend(last)
	return last
}

// Rest is the wrapper's.
func (f *Frames) Rest() int {
	if f.lent == nil {
		return f.lost
	}
	return len(f.lent) - transport.LongBegin
}

// Fetch is the wrapper's.
func (f *Frames) Fetch(from int, parts [][]byte) bool {
	frame := f.lent
	if frame == nil || from < ethertype.HeaderSize || from > transport.LongBegin {
		f.lost = 0
		return false
	}
	f.lent = nil
	frame = frame[from:]
	for _, part := range parts {
		if copy(part, frame) < len(part) {
			return false
		}
		frame = frame[len(part):]
	}
	return true
}
