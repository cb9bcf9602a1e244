package stream

import (
	"github.com/bobnet-go/bobnet/stream/internal/flow"
	"github.com/bobnet-go/bobnet/vipl"
)

// While coalesceFrom messages are in flight, small writes are coalesced until txSide.coalesceBytes
// have accumulated or one of these messages has been acknowledged.
//
// maxMessage is the longest message. With the headers before its data it fits in one frame where
// frames are longest, sealed or not, and in 64 KiB of the kernel's memory. The longest record of an
// IP interface (stream/tun) fits in it. Longer data are split into pieces of wholeMessage bytes,
// which are whole pages.
const (
	coalesceFrom = 4
	maxMessage   = 65_024
	wholeMessage = 60 << 10
)

// coalesceBytes returns how many bytes are coalesced: a quarter of the write buffer, so that the
// buffer is not full before an acknowledgement is requested, and at most a whole message.
func (x *txSide) coalesceBytes() int { return min(wholeMessage, len(x.buf)/4) }

// pump sends what may be sent now: staged data, then the end of the stream, and credit.
func (c *Conn) pump() {
	if c.err != nil || c.torn || !c.greeted {
		return
	}
	x := &c.tx
	for n := x.stage.Unposted(); n > 0; n = x.stage.Unposted() {
		if x.messages >= coalesceFrom && n < x.coalesceBytes() {
			break
		}
		from, run := x.stage.Pending()
		run = c.room(run)
		if run == 0 || !c.postData(x.buf[from:from+run], x.handle, run, false) {
			break
		}
	}
	if x.ending && !x.Ended() && x.stage.Unposted() == 0 && len(x.free) > 0 {
		c.postWord(x.End())
	}
	if c.rx.Due() && len(x.free) > 0 {
		c.stats.CreditsSent++
		c.postWord(c.rx.Credit())
	}
}

// room returns how many of n bytes the next message may carry.
func (c *Conn) room(n int) int {
	if c.tx.messages >= dataDescs || len(c.tx.free) == 0 {
		return 0
	}
	if n > maxMessage {
		n = wholeMessage
	}
	_, space := c.tx.Space()
	return min(n, int(space))
}

// postData sends data to the next place in the other end's ring. staged is the number of bytes that
// are in the stage. room must have allowed the message.
//
// The last message from the memory of a Write requests an acknowledgement, because the Write waits
// for it. The short message after which small writes are coalesced also requests one, unless writes
// follow each other so rapidly that many have accumulated by then.
func (c *Conn) postData(data []byte, handle vipl.MemHandle, staged int, last bool) bool {
	x := &c.tx
	at, _ := x.Space()
	t := x.unusedDescriptor()
	t.segs[0] = vipl.Segment{Data: data, Handle: handle}
	t.Segs = t.segs[:]
	t.Remote = vipl.RemoteSegment{Addr: x.peer.Addr + uint64(at), Handle: x.peer.Handle}
	t.staged, t.data, t.direct = staged, true, staged == 0
	t.Immediate = uint32(x.Sent(uint32(len(data))))
	x.stage.Posted(staged)
	t.AckNow = last || staged > 0 && (x.stage.Ask() || len(data) < x.coalesceBytes() && x.messages == coalesceFrom-1 && !x.rapid)
	x.messages++
	if t.direct {
		x.direct++
		c.stats.DirectBytes += uint64(len(data))
	}
	c.stats.MessagesSent++
	return c.post(t)
}

// postWord sends a word without data.
func (c *Conn) postWord(w flow.Word) {
	t := c.tx.unusedDescriptor()
	t.Segs, t.Remote, t.Immediate = nil, c.tx.peer, uint32(w)
	c.post(t)
}

// unusedDescriptor returns an unused descriptor of an RDMA write.
func (x *txSide) unusedDescriptor() *txDesc {
	last := len(x.free) - 1
	t := x.free[last]
	x.free = x.free[:last]
	t.Op, t.HasImmediate, t.Unordered, t.AckNow, t.Context = vipl.OpRDMAWrite, true, true, false, t
	x.busy++
	return t
}

// post posts t, and reports whether it succeeded.
func (c *Conn) post(t *txDesc) bool {
	if err := c.vi.PostSend(&t.Descriptor); err != nil {
		c.sent(&t.Descriptor)
		c.fail(err)
		return false
	}
	return true
}
