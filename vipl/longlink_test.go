package vipl_test

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// longLink makes any link a transport.LongLink, so that long frames are tested in
// virtual time too: it says that the link's MTU is smaller than it is.
type longLink struct {
	transport.Link
	mtu     int  // what it says
	opaque  bool // long frames do not get through
	clumsy  int  // each clumsy-th frame is lost when it is fetched; 0: none
	slot    int  // if not 0, there are no long frames, and of others that are longer only as much is given
	fetched int
	started bool
	views   [transport.MaxBatch][]byte
	queue   [][]byte
	rest    []byte // what the last view lacks
	last    []byte // the last frame, whole, if it is a long one
}

// longMTU and shortMTU are those of worlds with such links.
const (
	longMTU  = 1500
	shortMTU = 600
)

func newLongLink(l transport.Link) *longLink { return &longLink{Link: l, mtu: shortMTU} }

// newSlotLink returns a link of which all but the beginning of plain frames is to be fetched, as on a
// ring whose MTU is larger than its slots.
func newSlotLink(l transport.Link) *longLink { return &longLink{Link: l, mtu: longMTU, slot: 200} }

func (l *longLink) Info() transport.Info {
	info := l.Link.Info()
	info.MTU = l.mtu
	return info
}

func (l *longLink) StartLong() bool {
	l.started = l.slot == 0
	return l.started
}

func (l *longLink) short(f int) bool { return f <= l.mtu+ethertype.EthernetSize }

func (l *longLink) Send(frames []transport.Frame) (n int, err error) {
	for n < len(frames) {
		switch size := frames[n].Len(); {
		case l.short(size):
		case !l.started:
			return n, transport.ErrFrameSize
		case l.opaque:
			n++
			continue
		}
		k, err := l.Link.Send(frames[n : n+1])
		if k == 0 || err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (l *longLink) Recv(views [][]byte) (int, error) {
	l.rest, l.last = nil, nil
	n, err := l.Link.Recv(l.views[:])
	for _, f := range l.views[:n] {
		l.queue = append(l.queue, bytes.Clone(f))
	}
	n = 0
	for n < min(len(views), transport.MaxBatch) && len(l.queue) > 0 && l.rest == nil {
		f := l.queue[0]
		l.queue = l.queue[1:]
		views[n] = f
		begin := cmp.Or(l.slot, transport.LongBegin)
		if l.slot == 0 && !l.short(len(f)) || l.slot > 0 && len(f) > begin {
			views[n], l.rest, l.last = f[:begin], f[begin:], f
		}
		n++
	}
	return n, err
}

func (l *longLink) Rest() int { return len(l.rest) }

func (l *longLink) Fetch(from int, parts [][]byte) bool {
	if l.rest == nil || from < ethertype.HeaderSize || from > len(l.last)-len(l.rest) {
		panic(fmt.Sprintf("Fetch from %d of a frame that lacks %d bytes", from, len(l.rest)))
	}
	f := l.last[from:]
	l.rest = nil
	if l.fetched++; l.clumsy > 0 && l.fetched%l.clumsy == 0 {
		for _, part := range parts {
			clear(part)
		}
		return false
	}
	for _, part := range parts {
		if copy(part, f) < len(part) {
			return false
		}
		f = f[len(part):]
	}
	return true
}

func (l *longLink) Ready() bool { return len(l.queue) > 0 || l.Link.Ready() }

func (l *longLink) Wait(until int64) error {
	if len(l.queue) > 0 {
		return nil
	}
	return l.Link.Wait(until)
}
