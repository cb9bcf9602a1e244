package seal

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// burst is how many bytes of frames are sealed before they are sent. It fits a processor's cache.
const burst = 256 << 10

// Send implements transport.Link. It accepts frames to a station without a session, which wait for
// it.
func (l *Link) Send(frames []transport.Frame) (n int, err error) {
	if l.closed.Load() {
		return 0, transport.ErrClosed
	}
	now := l.Link.Now()
	l.turn(now)
	if len(l.m.out) > 0 {
		return 0, nil // older frames go first
	}
	frames = frames[:min(len(frames), transport.MaxBatch)]
	for n < len(frames) && err == nil {
		var more bool
		var took int
		took, more, err = l.sendSome(frames[n:], now)
		if n += took; !more {
			break
		}
	}
	if len(l.m.out) > 0 || l.m.next != l.next.Load() {
		l.settle(now)
	}
	return n, err
}

// sendSome seals and sends as many frames as fit a burst. It returns how many it took, and whether
// to continue with the rest.
func (l *Link) sendSome(frames []transport.Frame, now int64) (n int, more bool, err error) {
	if l.tx == nil {
		l.tx = make([]byte, max(burst, ethertype.MaxFrame))
	}
	k, used, added := 0, 0, 0
	for ; n < len(frames); n++ {
		f := &frames[n]
		length := f.Len()
		size := length + l.m.overhead(f, length)
		if len(f.Body) > transport.MaxBody || size > l.limit {
			err = transport.ErrFrameSize
			break
		}
		if used+size > len(l.tx) {
			break
		}
		sealed := l.m.seal(l.tx[used:used+size:used+size], f, now)
		if sealed == nil {
			continue
		}
		l.batch[k].Head, l.index[k] = sealed, n
		k++
		used += (size + 63) &^ 63
		added += size - length
	}
	if k == 0 {
		return n, true, err
	}
	took, sendErr := l.Link.Send(l.batch[:k])
	for i := range l.batch[:k] {
		l.batch[i].Head = nil
	}
	l.m.count.Sealed.Add(uint64(took))
	if took == k {
		l.m.count.moreTxBytes.Add(uint64(added))
		if sendErr != nil {
			err = sendErr
		}
		return n, true, err
	}
	l.m.count.moreTxBytes.Add(uint64(added / k * took))
	return l.index[took], false, sendErr
}

// turn does the common first part of Send and Recv.
func (l *Link) turn(now int64) {
	if valid := l.valid.Load(); valid != l.applied {
		l.applied = valid
		l.m.setKeys(*valid)
	}
	if now >= l.m.next || now-l.m.swept >= sweepEvery {
		l.m.tick(now)
	}
	if len(l.m.out) > 0 || l.m.next != l.next.Load() {
		l.settle(now)
	}
}

// settle sends the machine's own frames, and sets the time of the next tick.
func (l *Link) settle(now int64) {
	l.flush()
	next := l.m.next
	if len(l.m.out) > 0 {
		next = min(next, now+sendAgain)
	}
	if old := l.next.Load(); next < old {
		l.wakeAt(next)
	} else if old != next {
		l.next.Store(next)
	}
}

// flush sends the machine's own frames as far as the link has room. A frame that the link rejects
// is lost.
func (l *Link) flush() {
	for len(l.m.out) > 0 {
		k := min(len(l.m.out), len(l.batch))
		for i := range k {
			l.batch[i].Head = l.m.out[i]
		}
		n, err := l.Link.Send(l.batch[:k])
		for i := range k {
			l.batch[i].Head = nil
		}
		l.countOwn(l.m.out[:n])
		if err != nil && n < k {
			l.m.count.Crowded.Add(1)
			n++
		}
		clear(l.m.out[:n])
		if l.m.out = l.m.out[n:]; n < k && err == nil {
			return
		}
	}
	l.m.out = nil
}

// countOwn counts the machine's own frames, to subtract them from the caller's statistics.
func (l *Link) countOwn(frames [][]byte) {
	own, nbytes := 0, 0
	for _, f := range frames {
		if f[framing.OffsetKind] == uint8(framing.KindSealed) && len(f) >= ethertype.HeaderSize+framing.SealOverhead {
			l.m.count.moreTxBytes.Add(framing.SealOverhead)
			continue
		}
		own++
		nbytes += len(f)
	}
	c := l.m.count
	c.ownTx.Add(uint64(own))
	c.ownTxBytes.Add(uint64(nbytes))
	if own == len(frames) && own > 0 {
		c.ownTxCalls.Add(1)
	}
}

// maxEmpty bounds how often one call of Recv tries again if it has passed on none of the received
// frames.
const maxEmpty = 4

// Recv implements transport.Link.
func (l *Link) Recv(views [][]byte) (n int, err error) {
	now := l.Link.Now()
	if !l.closed.Load() {
		l.reload.poll(now)
		l.turn(now)
	}
	wrap.Long(&l.base).Return()
	l.rest.from = nil
	if l.rx == nil {
		l.makeRoom()
	}
	views = views[:min(len(views), l.slots)]
	for tries := 0; n == 0 && err == nil && tries < maxEmpty; tries++ {
		var k int
		if k, err = l.Link.Recv(views); k == 0 {
			break
		}
		n = l.openAll(views[:k], now)
	}
	if len(l.m.out) > 0 || l.m.next != l.next.Load() {
		l.settle(now)
	}
	return n, err
}

// roomAhead aligns the part of a frame after its header to 16 bytes.
const roomAhead = 16 - ethertype.HeaderSize%16

// makeRoom allocates the buffers for received frames.
func (l *Link) makeRoom() {
	l.slot = (roomAhead + l.mtu + ethertype.EthernetSize + 63) &^ 63
	l.slots = min(max(burst/l.slot, 8), transport.MaxBatch)
	l.rx = make([]byte, l.slot*l.slots)
}

// openAll replaces the frames in views by their decrypted form, without those that are dropped, and
// returns how many remain.
func (l *Link) openAll(views [][]byte, now int64) (n int) {
	lost, nbytes, added := 0, 0, 0
	for i, frame := range views {
		last := i == len(views)-1
		opened, size := l.openFrame(i, frame, last, now)
		if opened == nil {
			lost++
			nbytes += size
			continue
		}
		if last {
			size -= l.Rest()
		}
		added += size - len(opened)
		if len(opened) > max(l.mtu+ethertype.EthernetSize-framing.SealOverhead, transport.LongBegin) {
			opened = wrap.Long(&l.base).Lend(opened)
		}
		views[n] = opened
		n++
	}
	c := l.m.count
	c.moreRxBytes.Add(uint64(added))
	if lost > 0 {
		c.ownRx.Add(uint64(lost))
		c.ownRxBytes.Add(uint64(nbytes))
		if n == 0 {
			c.ownRxCalls.Add(1)
		}
	}
	return n
}

// openFrame decrypts the frame at i; last reports whether it is the last one. It returns the frame to pass
// on, or nil, and the number of bytes of the frame.
func (l *Link) openFrame(i int, frame []byte, last bool, now int64) (opened []byte, size int) {
	own := false // a long frame, in the memory of l.long
	if last {
		if rest := l.restWithin(); rest > 0 && begins(frame) {
			return l.openBegin(frame, rest, now), len(frame) + rest
		}
		whole := wrap.Long(&l.base).Take(frame)
		own = len(whole) > len(frame)
		frame = whole
	}
	room := l.roomFor(i, frame, own)
	if room == nil {
		l.m.count.Malformed.Add(1)
		return nil, len(frame)
	}
	return l.m.unseal(room, frame, now), len(frame)
}

// roomFor returns the buffer for decrypting the frame at i, or nil if the frame is lost or too
// long. A unicast frame in this station's own memory is decrypted in place, which saves 64 KiB of
// cache. Views of the wrapped link are read-only, and a broadcast must not change because each key
// is tried.
func (l *Link) roomFor(i int, frame []byte, own bool) []byte {
	switch {
	case own && inPlace(framing.SealKind(frame[framing.OffsetKind])) > 0:
		return frame[inPlace(framing.SealKind(frame[framing.OffsetKind])):]
	case frame == nil || len(frame) > framing.LongMTU+ethertype.EthernetSize && len(frame) > l.mtu+ethertype.EthernetSize:
		return nil
	case len(frame) <= l.slot-roomAhead:
		return l.rx[i*l.slot+roomAhead : (i+1)*l.slot : (i+1)*l.slot]
	}
	return l.longRoom()
}

// longRoom returns the buffer for a long frame.
func (l *Link) longRoom() []byte {
	if l.longRx == nil {
		l.longRx = make([]byte, roomAhead+ethertype.EthernetSize+max(framing.LongMTU, l.mtu))
	}
	return l.longRx[roomAhead:]
}
