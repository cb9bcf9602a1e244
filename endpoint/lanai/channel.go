package lanai

import (
	"encoding/binary"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
)

// channel is one end of a connection.
type channel struct {
	p        *way
	up       provider.Half
	e        *end
	q        queue // queue for its messages
	conn     uint32
	peer     peerName
	peerConn uint32
	peerLife uint32
	known    bool // the other end's number is known
	sends    []sendBuffer
	full     int
	early    []ref // posted before the other end was known
	windows  []window
	writes   []bulkWrite
	asked    bool        // the half has found a buffer busy
	ended    bool        // the other end has reported its end
	ending   wire.Reason // if not 0: reason to break for once the endpoint has been read
	over     bool        // closed or broken
	told     bool        // the half was notified that it is broken
	closed   bool
	taken    int // bytes of the budget
}

type sendBuffer struct {
	mem  []byte
	busy bool
}

// window is memory that the other end may write to.
type window struct {
	mem    []byte
	handle uint32
	got    int
}

// bulkWrite is a bulk write in progress, in fragments.
type bulkWrite struct {
	data []byte
	to   wire.Window
	off  int // bytes passed to the card
	left int // fragments not known to have arrived
	busy bool
}

// A fragment: connection (4), slot (2), 0 (2), handle (4), total bytes (4), offset (8), data.
const fragmentHeader = 24

// chunk returns the data length of the next fragment.
func (w *bulkWrite) chunk() int { return min(len(w.data)-w.off, provider.MaxCardMedium) }

// fill writes the rest of the next fragment.
func (w *bulkWrite) fill(b []byte, slot int) {
	binary.LittleEndian.PutUint32(b[4:], uint32(slot))
	binary.LittleEndian.PutUint32(b[8:], w.to.Handle)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(w.data)))
	binary.LittleEndian.PutUint64(b[16:], uint64(w.off))
	copy(b[fragmentHeader:], w.data[w.off:][:w.chunk()])
}

// wrote records that the card has a fragment, and reports whether more follow.
func (ch *channel) wrote(slot int) bool {
	w := &ch.writes[slot]
	w.off += w.chunk()
	w.left++
	return w.off < len(w.data)
}

func (p *way) channel(s wire.Shape, at wire.Side, up provider.Half, e *end) *channel {
	p.lastConn++
	ch := &channel{p: p, up: up, e: e, conn: p.lastConn, sends: make([]sendBuffer, s.NumSends()), full: s.Full(),
		windows: make([]window, s.Slots), writes: make([]bulkWrite, s.Slots)}
	if at == wire.Serving {
		ch.q = replies
	}
	size := 0
	for i := range ch.sends {
		size += s.Sends(i, at)
	}
	mem := make([]byte, size)
	for i := range ch.sends {
		n := s.Sends(i, at)
		ch.sends[i].mem, mem = mem[:n:n], mem[n:]
	}
	p.conns[ch.conn] = ch
	return ch
}

// Buffer implements provider.Channel.
func (ch *channel) Buffer(i int) []byte { return ch.sends[i].mem }

// Idle implements provider.Channel. It polls the card if necessary.
func (ch *channel) Idle(i int) bool {
	suspends := ch.p.card.cfg.Suspend
	if !ch.sends[i].busy && !suspends {
		return true
	}
	ch.p.card.lock()
	defer ch.p.card.unlock()
	if ch.known && !ch.over {
		ch.p.look(ch.e)
	}
	if ch.sends[i].busy {
		ch.asked = true
		ch.e.want(true)
		return false
	}
	return !suspends || ch.faces()
}

// faces reports whether the endpoint is in a frame and messages may be written. Otherwise the half
// is notified when it is. The caller must hold the engine's lock.
func (ch *channel) faces() bool {
	if ch.over || !ch.known || ch.e.gone || ch.e.state == endResident {
		return true
	}
	if !slices.Contains(ch.e.suspended, ch) {
		ch.e.suspended = append(ch.e.suspended, ch)
	}
	ch.p.card.driver.want(ch.e)
	return false
}

// resume notifies halves that wait for a frame if the endpoint is now in one. The caller must hold
// the engine's lock.
func (p *way) resume(e *end) {
	if len(e.suspended) == 0 {
		return
	}
	if e.state != endResident {
		p.card.driver.want(e)
		return
	}
	for _, ch := range e.suspended {
		p.push(item{what: itemSent, ch: ch})
	}
	e.suspended = e.suspended[:0]
}

// Post implements provider.Channel. It corks no messages.
func (ch *channel) Post(i, n, _ int) {
	if ch.over {
		return
	}
	ch.sends[i].busy = true
	ch.send(ref{what: refMessage, ch: ch, i: i, n: n})
}

// send passes a message to the endpoint, or keeps it until the other end is known.
func (ch *channel) send(r ref) {
	if !ch.known {
		ch.early = append(ch.early, r)
		return
	}
	ch.p.card.lock()
	defer ch.p.card.unlock()
	ch.p.card.driver.put(ch.e, ch.q, r)
}

// connected sends what was posted before the other end was known. The caller must hold the engine's
// lock.
func (ch *channel) connected() {
	for _, r := range ch.early {
		ch.p.card.driver.put(ch.e, ch.q, r)
	}
	ch.early = nil
}

// Grant implements provider.Channel.
func (ch *channel) Grant(slot int, mem []byte) (wire.Window, error) {
	ch.p.card.lock()
	defer ch.p.card.unlock()
	if ch.p.lastWindow++; ch.p.lastWindow == 0 {
		ch.p.lastWindow++
	}
	ch.windows[slot] = window{mem: mem, handle: ch.p.lastWindow}
	return wire.Window{Handle: ch.p.lastWindow}, nil
}

// Revoke implements provider.Channel.
func (ch *channel) Revoke(slot int) {
	ch.p.card.lock()
	defer ch.p.card.unlock()
	ch.windows[slot] = window{}
}

// Write implements provider.Channel.
func (ch *channel) Write(slot int, data []byte, to wire.Window, _ bool) {
	if ch.over {
		return
	}
	ch.writes[slot] = bulkWrite{data: data, to: to, busy: true}
	ch.send(ref{what: refFragment, ch: ch, i: slot})
}

// Land implements provider.Channel. The card writes only to memory that was granted for a write.
func (ch *channel) Land(int, int, int, []byte, bool) bool { return false }

// Writing implements provider.Channel.
func (ch *channel) Writing(slot int) bool { return ch.writes[slot].busy }

// fragment handles a fragment of bulk data. The caller must hold the engine's lock.
func (ch *channel) fragment(b []byte) {
	if len(b) < fragmentHeader {
		ch.p.strays++
		return
	}
	slot, total, off := word(b, 4), uint64(word(b, 12)), binary.LittleEndian.Uint64(b[16:])
	data := b[fragmentHeader:]
	if int64(slot) >= int64(len(ch.windows)) {
		ch.p.strays++
		return
	}
	w := &ch.windows[slot]
	if w.handle == 0 || w.handle != word(b, 8) || total > uint64(len(w.mem)) || off > total || uint64(len(data)) > total-off {
		ch.p.strays++
		return
	}
	copy(w.mem[off:], data)
	if w.got += len(data); w.got >= int(total) {
		*w = window{}
		ch.p.push(item{what: itemPlaced, ch: ch, i: int(slot)})
	}
}

// Release implements provider.Channel.
func (ch *channel) Release(packet *provider.Packet) {
	x, ok := packet.Home.(*received)
	if !ok || x.ch != ch {
		return
	}
	if x.at >= 0 {
		ch.p.card.lock()
		ch.p.card.driver.release(ch.e, x.at)
		ch.p.card.unlock()
	}
	ch.p.recycle(x)
}

// breaks ends the channel, and notifies the half once. The caller must hold the engine's lock.
func (ch *channel) breaks(reason wire.Reason) {
	if ch.over {
		return
	}
	ch.stop()
	ch.p.push(item{what: itemBroken, ch: ch, reason: reason})
}

// stop makes the channel send nothing more. The caller must hold the engine's lock.
func (ch *channel) stop() {
	if ch.over {
		return
	}
	ch.over = true
	ch.early = nil
	post := &ch.e.post
	for q := range post.waiting {
		post.waiting[q].Keep(func(r *ref) bool { return r.ch != ch })
	}
	for i := range post.refs {
		if post.refs[i].ch == ch {
			post.refs[i] = ref{}
		}
	}
}

// Close implements provider.Channel.
func (ch *channel) Close() {
	if ch.closed {
		return
	}
	ch.p.card.lock()
	defer ch.p.card.unlock()
	ch.closed = true
	if !ch.ended {
		ch.p.card.driver.say(sayGone, ch.peer, ch.p.seat, ch.conn, pair(ch.peerConn, 0)...)
	}
	ch.stop()
	ch.p.drop(ch)
	ch.p.memory.Give(ch.peer.mac, ch.taken)
	ch.taken = 0
}
