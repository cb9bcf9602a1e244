package seal

import (
	"time"

	"github.com/bobnet-go/bobnet/transport"
)

// Meet has the links make a session with each other, without any frame of theirs.
func Meet(links ...transport.Link) bool {
	views := make([][]byte, transport.MaxBatch)
	of := func(l transport.Link) *Link {
		s, _ := transport.As[*Link](l)
		return s
	}
	met := func(a, b *Link) bool {
		p := a.m.peers.find(b.m.self, b.m.ports.Lo)
		return p != nil && p.current != nil
	}
	for i, la := range links {
		for _, lb := range links[:i] {
			a, b := of(la), of(lb)
			if a.m.self == b.m.self {
				continue
			}
			p := a.m.peers.get(b.m.self, b.m.ports.Lo)
			a.m.begin(p, b.m.ports.Lo, a.Now())
			for end := a.Now() + int64(10*time.Second); !met(a, b) || !met(b, a); {
				a.Recv(views)
				b.Recv(views)
				a.Wait(min(end, a.Now()+int64(50*time.Microsecond)))
				if a.Now() > end {
					return false
				}
			}
			if !flushed(a, b) || !flushed(b, a) || !flushed(a, b) { // and what both say to what was on the way
				return false
			}
		}
	}
	return true
}

// flushed has all that a has sent arrive at b, and be answered.
func flushed(a, b *Link) bool {
	views := make([][]byte, transport.MaxBatch)
	s := a.m.peers.find(b.m.self, b.m.ports.Lo).current
	a.m.emit(a.m.confirmation(s))
	for end := b.Now() + int64(10*time.Second); b.m.byID[s.remote].seen.next < s.counter; {
		a.settle(a.Now())
		b.Recv(views)
		b.Wait(min(end, b.Now()+int64(50*time.Microsecond)))
		if b.Now() > end {
			return false
		}
	}
	b.Recv(views) // gives back to the link what was received last
	return true
}

// OneWay has a session last although the peer sends nothing, as in the suite of links.
func (o Options) OneWay() Options {
	o.silence = transport.Forever
	return o
}

// ChaCha has sessions use ChaCha20-Poly1305.
func (o Options) ChaCha() Options {
	o.suites = suiteChaCha
	return o
}
