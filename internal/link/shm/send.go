package shm

import (
	"encoding/binary"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
)

// Send implements transport.Link. It accepts every frame. A frame that finds its ring full is
// dropped and counted. A broadcast frame counts once for each station that receives it.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, transport.ErrClosed
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	for n < len(frames) {
		f := &frames[n]
		size := f.Len()
		if size > ethertype.MaxFrame || len(f.Body) > transport.MaxBody || len(f.Head) < ethertype.HeaderSize {
			err = transport.ErrFrameSize
			break
		}
		l.forward(f, size)
		n++
	}
	if n > 0 {
		l.stats.TxCalls++
	}
	return n, err
}

// forward sends one frame of size bytes to its destination.
func (l *Link) forward(f *transport.Frame, size int) {
	port, ok := l.concerns(f.Head)
	own := driver.Block(binary.BigEndian.Uint16(f.Head[framing.OffsetSrcPort:]))
	places := l.places[own]
	switch {
	case !ok:
		l.stats.TxDrops++
	case port != ethertype.PortAll && l.info.Ports.Contains(port):
		l.loop(f, size)
	case places == nil: // the receiver would not accept this source
		l.stats.TxDrops++
	case port == ethertype.PortAll:
		l.flood(own, f, size)
	default:
		b := driver.Block(port)
		if p := places[b].peer; p != nil {
			l.put(p, f, size)
		} else if l.reaches(b) {
			l.keep(own, b, f.AppendTo(make([]byte, 0, size)))
		} else {
			l.stats.TxDrops++
		}
	}
}

// concerns reports whether a frame belongs to this segment, and returns its port. Frames to a group
// address are for every station, whatever their port, as on Ethernet.
func (l *Link) concerns(head []byte) (port uint16, ok bool) {
	return framing.Concerns(head, l.info.EtherType, l.info.MAC)
}

// reaches reports whether block b may belong to another station.
func (l *Link) reaches(b int) bool {
	return !l.selfOnly && (b < driver.Block(l.info.Ports.Lo) || b > driver.Block(l.info.Ports.Hi))
}

// put writes f into the ring to p, and wakes p if it sleeps.
func (l *Link) put(p *peer, f *transport.Frame, size int) {
	r := none
	switch {
	case p.failure != nil:
	case p.mayLend(f, size):
		r = p.putLong(f, size)
	default:
		r = p.out.put(f, size)
	}
	switch r {
	case done:
		l.stats.TxFrames++
		l.stats.TxBytes += uint64(size)
		if p.outSleep.Load() != awake {
			l.rouse(p)
		}
		return
	case broken:
		l.fail(p)
	}
	l.stats.TxDrops++
}

// rouse wakes a peer that sleeps.
func (l *Link) rouse(p *peer) {
	switch mode := p.outSleep.Swap(awake); {
	case mode == awake:
	case p.conn == nil:
		l.interrupt()
	case mode == onFutex:
		wakeFutex(p.outSleep, true)
	case mode == onBell:
		l.bell.strikeAt(p.bell)
	default:
		l.fail(p)
	}
}

// fail gives up a peer whose rings hold impossible values. Recv reports it.
func (l *Link) fail(p *peer) {
	if p.failure == nil {
		p.failure = ErrBroken
		l.events.Store(true)
		l.notify()
	}
}

// loop sends f to the link itself.
func (l *Link) loop(f *transport.Frame, size int) {
	if l.self == nil {
		p, err := newSelf(l.ring, l.info.Ports)
		if err != nil {
			l.stats.TxDrops++
			return
		}
		l.self = p
		list := append((*l.peers.Load())[:len(*l.peers.Load()):len(*l.peers.Load())], p)
		l.peers.Store(&list)
		l.notify()
	}
	l.put(l.self, f, size)
}

// flood sends f, from block own, to every other station: directly to known ones, and by calls to
// new ones.
func (l *Link) flood(own int, f *transport.Frame, size int) {
	peers := *l.peers.Load()
	for i, p := range peers {
		if p.conn != nil && p.own == own && !p.among(peers[:i]) {
			l.put(p, f, size)
		}
	}
	var whole []byte
	files := l.segment.hasFiles()
	for b := range blocks {
		if l.places[own][b].peer != nil || !l.reaches(b) {
			continue
		}
		if _, there := l.present(b, files); there {
			if whole == nil {
				whole = f.AppendTo(make([]byte, 0, size))
			}
			l.keep(own, b, whole)
		}
	}
}

// among reports whether one of peers is the same link, reached from the same block of ours. A link
// cannot pretend to be another one and announce the same ports: they include the ports that the
// kernel vouches for.
func (p *peer) among(peers []*peer) bool {
	for _, q := range peers {
		if q.instance == p.instance && q.claimed == p.claimed && q.own == p.own {
			return true
		}
	}
	return false
}
