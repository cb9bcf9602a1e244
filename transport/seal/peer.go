package seal

import (
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// peer is a station: a MAC address and the ports of one NIC there. Before its first handshake only
// the port that frames are sent to is known.
type peer struct {
	mac      ethertype.MAC
	ports    transport.PortRange
	known    bool       // ports is from the peer's handshake
	current  *session   // to send in; may be nil
	sessions []*session // all whose frames are accepted, the latest last
	attempt  *attempt
	rekeyed  int64 // when a replacement of current was last started

	waiting [][]byte // frames that wait for a session
	waited  int64    // since when they wait

	inited int64  // the time in the cookie of the last handshake that the peer started
	init   []byte // the first message of that handshake
	reply  []byte // and the reply to it
}

// table holds the known peers.
type table struct {
	stations map[ethertype.MAC][]*peer
	count    int
	busy     []*peer // peers with a handshake in progress, or with waiting frames
	last     *peer   // result of the latest find
	bytes    int     // total of the waiting frames
}

func (t *table) init() { t.stations = map[ethertype.MAC][]*peer{} }

// find returns the peer that has a port, or nil.
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

// get returns the peer that has a port, and creates it if necessary. It returns nil if there are
// too many peers.
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

// remove deletes a peer.
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

// watch adds a peer to those that the timers handle.
func (t *table) watch(p *peer) {
	if !slices.Contains(t.busy, p) {
		t.busy = append(t.busy, p)
	}
}

// keep copies a frame that waits for a session. It returns false if there is no room.
func (t *table) keep(p *peer, frame *transport.Frame, now int64) bool {
	size := frame.Len()
	if len(p.waiting) >= maxWaiting || t.bytes+size > maxWaitBytes {
		return false
	}
	if len(p.waiting) == 0 {
		p.waited = now
	}
	p.waiting = append(p.waiting, frame.AppendTo(make([]byte, 0, size)))
	t.bytes += size
	t.watch(p)
	return true
}

// takeWaiting removes and returns the frames that wait for a session with p.
func (t *table) takeWaiting(p *peer) [][]byte {
	frames := p.waiting
	p.waiting = nil
	for _, f := range frames {
		t.bytes -= len(f)
	}
	return frames
}

// dropWaiting drops the waiting frames, and returns their number.
func (t *table) dropWaiting(p *peer) int { return len(t.takeWaiting(p)) }
