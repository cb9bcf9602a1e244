// Package wrap is the common part of wrappers of links: a base that forwards all calls, and the
// handling of long frames (transport.LongLink).
package wrap

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/transport"
)

// Base is a link that forwards all calls to the wrapped link. Wrappers embed it, and override what
// they change.
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

// ReceiveLong implements transport.LongLink: it returns what the wrapped link does.
func (b *Base) ReceiveLong(on bool) bool { return b.long.link != nil && b.long.link.ReceiveLong(on) }

// Rest implements transport.LongLink.
func (b *Base) Rest() int { return b.long.Rest() }

// Cut implements transport.LongLink: it returns what the wrapped link does.
func (b *Base) Cut() bool { return b.long.link != nil && b.long.link.Cut() }

// Fetch implements transport.LongLink.
func (b *Base) Fetch(from int, parts [][]byte) bool { return b.long.Fetch(from, parts) }

// Frames handles the long frames of a wrapped link. A wrapper receives each one completely from the
// wrapped link, and lends its beginning to the caller, which fetches the rest from the wrapper.
type Frames struct {
	link transport.LongLink // the wrapped link, or nil
	room []byte             // for a received frame; allocated for the first one
	part [1][]byte
	lent []byte // the frame of the last view, if it is long
	lost int    // bytes that the last view lacks and the wrapped link has lost
}

// Link returns the wrapped link, or nil if it is not a transport.LongLink.
func (f *Frames) Link() transport.LongLink { return f.link }

// Take returns the complete last frame of a received batch. It returns nil if the wrapped link has
// lost the rest. The frame is valid until the next call.
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

// Lend returns the view of a long frame, which must be the last one that the wrapper's Recv
// returns. The frame must not change until Return.
func (f *Frames) Lend(frame []byte) (view []byte) {
	f.lent = frame
	return frame[:transport.LongBegin]
}

// Lent reports whether the last view is of a long frame.
func (f *Frames) Lent() bool { return f.lent != nil }

// Return ends the loan of the last view, at the next Recv.
func (f *Frames) Return() { f.lent, f.lost = nil, 0 }

// See is for wrappers that examine frames without changing them. It takes the result of the wrapped
// link's Recv, and returns the complete last frame. The last view becomes what the wrapper's caller
// receives. If the rest of the frame is lost, See returns the view, and the caller learns of the
// loss from Fetch.
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

// Rest implements transport.LongLink for the wrapper.
func (f *Frames) Rest() int {
	if f.lent == nil {
		return f.lost
	}
	return len(f.lent) - transport.LongBegin
}

// Fetch implements transport.LongLink for the wrapper.
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
