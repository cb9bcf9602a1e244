// Package wrap is what wrappers of links share: a base that passes everything on, and the
// handling of long frames (transport.LongLink).
package wrap

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Base is a link that passes everything on to the link that it wraps. Wrappers embed it, and
// override what they change.
type Base struct {
	transport.Link        // the wrapped link
	long           Frames // its long frames
	name           string
}

// New returns a Base around link. Its driver has name and a plus sign before that of link.
func New(link transport.Link, name string) Base {
	l, _ := link.(transport.LongLink)
	return Base{Link: link, long: Frames{link: l}, name: name}
}

// Long returns the long frames of the link that b wraps.
func Long(b *Base) *Frames { return &b.long }

// Info implements transport.Link.
func (b *Base) Info() transport.Info {
	info := b.Link.Info()
	info.Driver = b.name + "+" + info.Driver
	return info
}

// Unwrap implements transport.Wrapper.
func (b *Base) Unwrap() transport.Link { return b.Link }

// Place implements optional.Parking if the wrapped link does.
func (b *Base) Place() optional.Place { return optional.PlaceOf(b.Link) }

// Check implements transport.Checker if the wrapped link does.
func (b *Base) Check() error { return transport.Check(b.Link) }

// StartLong implements transport.LongLink: it returns what the wrapped link does.
func (b *Base) StartLong() bool { return b.long.link != nil && b.long.link.StartLong() }

// Rest implements transport.LongLink.
func (b *Base) Rest() int { return b.long.Rest() }

// Fetch implements transport.LongLink.
func (b *Base) Fetch(from int, parts [][]byte) bool { return b.long.Fetch(from, parts) }

// Frames are the long frames of a wrapped link. A wrapper takes each whole from the wrapped
// link, and lends its beginning to its caller, which fetches the rest from the wrapper.
type Frames struct {
	link transport.LongLink // the wrapped link, or nil
	room []byte             // for a frame that has arrived; made for the first one
	part [1][]byte
	lent []byte // the last view's frame, if it is a long one
	lost int    // bytes that the last view lacks and the wrapped link has lost
}

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
