package host

import (
	"cmp"
	"errors"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// way is the path of a frame.
type way uint8

const (
	wire way = iota
	near
	both
)

// way returns the path of f.
func (l *Link) way(f *transport.Frame) way {
	if len(f.Head) < ethertype.EthernetSize {
		return wire
	}
	switch dst := ethertype.MAC(f.Head); {
	case dst == l.mac:
		return near
	case dst.IsGroup() && !l.virtual:
		return both
	}
	return wire
}

// Send implements transport.Link.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	if len(frames) == 1 && l.way(&frames[0]) == wire { // typical for a message that answers another one
		return l.Link.Send(frames)
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	for n < len(frames) {
		way := l.way(&frames[n])
		end := n + 1
		for way != both && end < len(frames) && l.way(&frames[end]) == way {
			end++
		}
		took, err := l.pass(way, frames[n:end])
		n += took
		if err != nil || n < end {
			return n, err
		}
	}
	return n, nil
}

// pass sends frames that all take the same path.
func (l *Link) pass(way way, frames []transport.Frame) (n int, err error) {
	if way == near {
		return l.near.Send(frames)
	}
	n, err = l.Link.Send(frames)
	// Frames that outer has no room for will be offered again. If outer fails because the interface
	// is down, the stations of this host still receive the frame.
	if way == both && (n > 0 || err != nil && !errors.Is(err, transport.ErrFrameSize)) {
		_, nearErr := l.near.Send(frames)
		err = cmp.Or(err, nearErr)
	}
	return n, err
}

// Ready implements transport.Link.
func (l *Link) Ready() bool { return l.Link.Ready() || l.near.Ready() }

// Nearby implements optional.Nearby.
func (l *Link) Nearby() bool { return l.latest == near }

// Recv implements transport.Link. It polls the two paths first alternately.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	l.lent = false
	if !l.near.Ready() {
		return l.recvOuter(views)
	}
	views = views[:min(len(views), transport.MaxBatch)]
	l.latest = near
	if l.turn = !l.turn; l.turn {
		if n, err = l.recvNear(views); err != nil || l.lent {
			return n, err
		}
	}
	k, err := l.recvOuter(views[n:])
	if n += k; err != nil || n == len(views) || l.turn || l.Rest() > 0 {
		return n, err
	}
	l.latest = near
	k, err = l.recvNear(views[n:])
	return n + k, err
}

// recvNear is Recv of the path within the host.
func (l *Link) recvNear(views [][]byte) (n int, err error) {
	n, err = l.near.Recv(views)
	l.lent = n > 0 && l.near.Rest() > 0
	return n, err
}

// recvOuter is Recv of outer without forged frames.
func (l *Link) recvOuter(views [][]byte) (n int, err error) {
	k, err := l.Link.Recv(views)
	if l.cut = false; k > 0 {
		l.latest = wire
	}
	got := views[:k]
	for i := range got {
		if l.forged(got[i]) {
			return l.refuse(got, i), err
		}
	}
	return k, err
}

// refuse removes the forged frames from views, of which the one at first is the first. The
// remaining views move to the front; it returns their number.
func (l *Link) refuse(views [][]byte, first int) int {
	kept := first
	for i, view := range views[first:] {
		if l.forged(view) {
			l.cut = first+i == len(views)-1 // Rest then belongs to a dropped frame
			l.refused.count(len(view))
			continue
		}
		views[kept] = view
		kept++
	}
	return kept
}

// forged reports whether a frame from outer has this host's source address. This host delivers its
// own frames internally, so another host has sent it, or it was looped back.
func (l *Link) forged(frame []byte) bool {
	return len(frame) >= ethertype.EthernetSize && ethertype.MAC(frame[offSrc:]) == l.mac
}

// offSrc is the offset of the source address in a frame.
const offSrc = 6

// StartLong implements transport.LongLink for both paths. Only frames to other hosts are longer than the
// MTU; those to stations of this host may have up to LocalMTU bytes.
func (l *Link) StartLong() bool {
	l.near.StartLong()
	return l.base.StartLong()
}

// holder returns the path that holds the rest of the last view, or nil.
func (l *Link) holder() transport.LongLink {
	switch long := wrap.Long(&l.base).Link(); {
	case l.lent:
		return l.near
	case long != nil && !l.cut:
		return long
	}
	return nil
}

// Rest implements transport.LongLink.
func (l *Link) Rest() int {
	if from := l.holder(); from != nil {
		return from.Rest()
	}
	return 0
}

// Fetch implements transport.LongLink.
func (l *Link) Fetch(from int, parts [][]byte) bool {
	holder := l.holder()
	return holder != nil && holder.Fetch(from, parts)
}

// Cut implements transport.LongLink.
func (l *Link) Cut() bool {
	holder := l.holder()
	return holder != nil && holder.Cut()
}

// Wait implements transport.Link: it waits on outer, and near interrupts it.
func (l *Link) Wait(until int64) error {
	if l.virtual {
		if l.near.Ready() {
			return nil
		}
		return l.Link.Wait(until)
	}
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	if l.near.BeginSleep() {
		l.near.EndSleep()
		return nil
	}
	err := l.Link.Wait(until)
	l.near.EndSleep()
	if err == nil && !l.gate.Open() {
		err = transport.ErrClosed
	}
	return err
}
