package seal

import (
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// peer is a station: a MAC address and the ports of one NIC there. Before its first
// handshake only the one port is known that frames go to.
type peer struct {
	mac      ethertype.MAC
	ports    transport.PortRange
	known    bool       // ports are what it has said
	current  *session   // what is sent in; nil if there is none
	sessions []*session // all that its frames may be of, the latest last
	attempt  *attempt
	rekeyed  int64 // when current was to be replaced the last time

	waiting [][]byte // frames that wait for a session
	waited  int64    // since when

	inited int64  // the time in the cookie of the last handshake that it began
	init   []byte // its first message
	reply  []byte // and what it was answered
}

// table is the peers that are known.
type table struct {
	stations map[ethertype.MAC][]*peer
	count    int
	busy     []*peer // those with an attempt, or with frames that wait
	last     *peer   // that was found last
	octets   int     // of frames that wait
}

func (t *table) init() { t.stations = map[ethertype.MAC][]*peer{} }

// find returns the peer with a port, nil if there is none.
func (t *table) find(mac ethertype.MAC, port uint16) *peer {
	if p := t.last; p != nil && p.mac == mac && p.ports.Contains(port) {
		return p
	}
	for _, p := range t.stations[mac] {
		if p.ports.Contains(port) {
			t.last = p
			return p
		}
	}
	return nil
}

// get is find, with a new peer if there is none. It returns nil if there are too many.
func (t *table) get(mac ethertype.MAC, port uint16) *peer {
	if p := t.find(mac, port); p != nil {
		return p
	}
	if t.count >= maxPeers {
		return nil
	}
	return t.add(mac, transport.PortRange{Lo: port, Hi: port})
}

func (t *table) add(mac ethertype.MAC, ports transport.PortRange) *peer {
	p := &peer{mac: mac, ports: ports}
	t.stations[mac] = append(t.stations[mac], p)
	t.count++
	return p
}

// remove forgets a peer.
func (t *table) remove(p *peer) {
	list := slices.DeleteFunc(t.stations[p.mac], func(o *peer) bool { return o == p })
	if t.stations[p.mac] = list; len(list) == 0 {
		delete(t.stations, p.mac)
	}
	t.busy = slices.DeleteFunc(t.busy, func(o *peer) bool { return o == p })
	t.dropWaiting(p)
	t.count--
	if t.last == p {
		t.last = nil
	}
}

// watch has the timers look at a peer.
func (t *table) watch(p *peer) {
	if !slices.Contains(t.busy, p) {
		t.busy = append(t.busy, p)
	}
}

// keep has a copy of a frame wait for a session. It reports false if there is no room.
func (t *table) keep(p *peer, frame *transport.Frame, now int64) bool {
	size := frame.Len()
	if len(p.waiting) >= maxWaiting || t.octets+size > maxWaitBytes {
		return false
	}
	if len(p.waiting) == 0 {
		p.waited = now
	}
	p.waiting = append(p.waiting, frame.AppendTo(make([]byte, 0, size)))
	t.octets += size
	t.watch(p)
	return true
}

// takeWaiting returns the frames that waited for a session with p, and forgets them.
func (t *table) takeWaiting(p *peer) [][]byte {
	frames := p.waiting
	p.waiting = nil
	for _, f := range frames {
		t.octets -= len(f)
	}
	return frames
}

// dropWaiting forgets the frames that wait, and returns how many.
func (t *table) dropWaiting(p *peer) int { return len(t.takeWaiting(p)) }
