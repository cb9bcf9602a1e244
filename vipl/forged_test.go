package vipl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMillionForgedOverLinks is TestMillionForgedFrames over real links: a million
// changed frames with the right tag and a right CRC, an eighth over each, a third of
// these on each level. Each is counted; connections may end, with an error;
// nothing is written but what is posted or open; and afterwards the connection
// works or ends, and a new one works.
func TestMillionForgedOverLinks(t *testing.T) {
	total := siegeFrames() / len(viplinks.All[1:])
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		f := newForgery(t, open)
		for i, level := range levels {
			f.begin(level)
			for f.thrown < total*(i+1)/len(levels) {
				f.throw()
				f.revive()
			}
			f.outlive()
			f.disconnect()
		}
		fetched := f.na.Fetched()
		t.Logf("%d frames, %d connections ended; %d long frames went where they belong", f.thrown, f.ended, fetched)
		if f.ended < f.thrown/200 {
			t.Error("too few forged frames have got through: the test tests little")
		}
		if name == longName && fetched < uint64(f.ended) {
			t.Error("too few frames were received where they belong: the test tests little")
		}
	})
}

// forgery is an onslaught by frames that are right for what protects a connection.
type forgery struct {
	*onslaught
	level     reliability.Level
	listener  *vipl.Listener
	read      fenced        // of a, for a read
	reading   bool          // it is posted
	dueSeq    ethertype.Seq // what the peer would use next
	dueMsg    ethertype.Seq
	dueAck    ethertype.Seq // of a read's request
	dueRead   ethertype.Seq // the read's number
	fragments [][]byte      // of a long message that is due
	fresh     bool          // nothing has been forged on this connection
	ended     int           // connections that did not hold
}

// volley is how many frames are thrown before somebody looks whether the
// connection holds.
const volley = 16

func newForgery(t *testing.T, open opener) *forgery {
	// A peer that is heard, but acknowledges nothing because somebody else has used its
	// numbers, is given up after four times as many tries.
	f := &forgery{onslaught: newOnslaught(t, open, &reliability.Config{MaxTries: 4, MaxRTO: 20_000_000})}
	f.patience = 500 * time.Millisecond
	var errs [2]error
	f.listener, errs[0] = f.na.Listen(0)
	f.read, errs[1] = newFenced(f.na, 1, 3000)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return f
}

// begin connects new VIs.
func (f *forgery) begin(level reliability.Level) {
	f.level = level
	f.connect(level)
	f.arm()
}

// arm readies what frames are forged from.
func (f *forgery) arm() {
	var h, last ethertype.Header
	f.fresh, f.reading, f.dueSeq, f.dueMsg = true, false, 0, 0
	for _, frame := range f.captured {
		if _, err := h.Parse(frame); err != nil || !h.Kind.Sequenced() {
			continue
		}
		if f.dueSeq == 0 || f.dueSeq.LessEq(h.Seq) {
			last, f.dueSeq = h, h.Seq+1
		}
		switch {
		case h.Kind == ethertype.KindReadData:
			f.dueRead, f.dueAck = h.Msg+1, h.Ack+1
		case h.Kind == ethertype.KindData && (f.dueMsg == 0 || f.dueMsg.LessEq(h.Msg)):
			f.dueMsg = h.Msg + ethertype.Seq(max(h.Count, 1))
		}
	}
	f.control()
	honest := len(f.captured)
	f.message(last)
	f.fragments = f.captured[honest:]
}

// message adds the fragments of a message as long as a receive, none of them packed, to
// the captured frames.
func (f *forgery) message(h ethertype.Header) {
	h.Kind, h.Flags = ethertype.KindData, h.Flags&ethertype.FlagTakesLong
	h.Msg, h.Offset, h.Length, h.Count = f.dueMsg, 0, uint32(f.long), 1
	step := (f.longest - ethertype.HeaderSize) &^ 63 // as senders cut for large frames
	for h.Offset < h.Length {
		h.Seq++
		if h.Size = uint16(min(step, f.long-int(h.Offset))); h.Offset+uint32(h.Size) == h.Length {
			h.Flags |= ethertype.FlagLast
		}
		frame := make([]byte, ethertype.HeaderSize+int(h.Size))
		h.Put(frame)
		ethertype.Seal(frame)
		f.captured = append(f.captured, frame)
		h.Offset += uint32(h.Size)
	}
}

// throw sends forged frames, and has the receiver take what comes of them.
func (f *forgery) throw() {
	n := 0
	if f.fresh {
		n = f.train()
		f.fresh = false
	}
	if f.level.Reliable() && !f.reading && f.rng.IntN(2) == 0 {
		f.reading = true
		d := &f.read.descs[0]
		d.Op, d.Remote = vipl.OpRDMARead, vipl.RemoteSegment{Addr: vipl.VirtualAddress(f.far.mem), Handle: f.far.h}
		if err := f.a.PostSend(d); err != nil {
			f.t.Fatal(err)
		}
	}
	for ; n < volley; n++ {
		f.load(n, f.forge())
	}
	f.fire(f.batch[:volley])
	f.take()
}

// take has a take what is done.
func (f *forgery) take() {
	if d, _ := f.a.SendDone(); d != nil {
		f.reading = false
		f.dueRead++
		f.dueAck++
	}
	for {
		d, _ := f.a.RecvDone()
		if d == nil {
			return
		}
		f.fits(d)
		if f.a.State() == vipl.StateConnected {
			f.repost(d)
		}
	}
}

// forge returns a changed frame with the right tag and a right CRC. Half of those that
// have numbers have some that are due.
func (f *forgery) forge() []byte {
	frame := f.fit(f.mutate())
	if f.rng.IntN(2) == 0 {
		f.number(frame, f.rng.IntN(3), f.rng.IntN(3))
	}
	if f.rng.IntN(2) == 0 {
		f.aim(frame)
	}
	reseal(frame)
	return frame
}

// number gives a frame numbers a little behind those that are due.
func (f *forgery) number(frame []byte, seq, msg int) {
	be := binary.BigEndian
	be.PutUint32(frame[26:], uint32(f.dueSeq)+uint32(seq))
	if kindOf(frame) != ethertype.KindReadData {
		be.PutUint32(frame[34:], uint32(f.dueMsg)+uint32(msg))
	} else if f.reading {
		be.PutUint32(frame[30:], uint32(f.dueAck))
		be.PutUint32(frame[34:], uint32(f.dueRead))
	}
}

// aim has a frame that names memory of a name some that is closed to peers, or about
// the edges of what is open.
func (f *forgery) aim(frame []byte) {
	kind := kindOf(frame)
	if kind != ethertype.KindRDMAWrite && kind != ethertype.KindRDMARead || len(frame) < ethertype.HeaderSize+ethertype.RDMASize {
		return
	}
	all, h := f.near.all, f.near.h
	if f.rng.IntN(2) == 0 {
		all, h = f.in.all, f.in.h
	}
	at := vipl.VirtualAddress(all) + f.rng.Uint64N(uint64(len(all)))
	ethertype.RDMA{Addr: at, Handle: uint32(h), Immediate: f.rng.Uint32()}.Put(frame[ethertype.HeaderSize:])
}

// train loads the fragments of a long message, which come in their turn. Some have
// fields changed. It returns how many they are.
func (f *forgery) train() int {
	for i, frame := range f.fragments {
		frame = append(f.scratch[:0], frame...)
		f.scratch = frame
		if f.rng.IntN(8) == 0 {
			flip(f.rng, frame[26:58])
		}
		reseal(frame)
		f.load(i, frame)
	}
	f.dueSeq += ethertype.Seq(len(f.fragments))
	f.dueMsg++
	return len(f.fragments)
}

// revive connects again if the connection has ended, with an error that says why.
func (f *forgery) revive() {
	if f.a.State() == vipl.StateConnected && f.b.State() == vipl.StateConnected {
		return
	}
	f.ended++
	for _, v := range []*vipl.VI{f.a, f.b} {
		if v.State() == vipl.StateError && v.Err() == nil {
			f.t.Fatal("a connection ended without an error")
		}
	}
	f.again(true)
}

// snug is how long some receives are.
const snug = 100

// postAll posts all of a's receives: those for the exchange that is captured and for
// the train, then short ones, if that is wanted.
func (f *forgery) postAll(short bool) {
	for i := range f.in.descs {
		seg := &f.in.descs[i].Segs[0]
		seg.Data = f.in.data(i)[:f.long:f.long]
		if short && i > honest {
			copy(seg.Data[snug:], fencePattern)
			seg.Data = seg.Data[:snug]
		}
		f.repost(&f.in.descs[i])
	}
}

// fits wants nothing to have been written beyond the end of a receive.
func (f *forgery) fits(d *vipl.Descriptor) {
	data := d.Segs[0].Data
	if int(d.Length) > len(data) {
		f.t.Fatalf("a message of %d bytes was delivered to a receive of %d", d.Length, len(data))
	}
	if beyond := data[len(data):cap(data)]; !bytes.HasPrefix(fencePattern, beyond[:min(len(beyond), fence)]) {
		f.t.Fatalf("bytes behind a receive of %d were written to", len(data))
	}
}

// again connects the VIs anew, in whatever state they are.
func (f *forgery) again(short bool) {
	for _, v := range []*vipl.VI{f.a, f.b} {
		if err := v.Disconnect(); err != nil {
			f.t.Fatal(err)
		}
		for d, _ := v.RecvDone(); d != nil; d, _ = v.RecvDone() {
			f.fits(d)
		}
		for d, _ := v.SendDone(); d != nil; d, _ = v.SendDone() {
		}
	}
	if err := f.b.ConnectStart(f.listener.Addr(), nil); err != nil {
		f.t.Fatal(err)
	}
	f.until("a new connection", func() bool {
		if r, _ := f.listener.Poll(); r != nil && f.a.State() == vipl.StateIdle { // else one that was repeated
			if err := r.AcceptStart(f.a); err != nil {
				f.t.Fatal(err)
			}
		}
		return f.a.State() == vipl.StateConnected && f.b.State() == vipl.StateConnected
	})
	f.postAll(short)
	f.capture(f.level)
	f.arm()
}

// outlive wants the connection to work or to end, as seen by the peer in whose name
// frames were forged, and then a new one to work.
func (f *forgery) outlive() {
	f.take()
	f.post(f.b, vipl.OpSend, f.msg, 100, region{})
	var err error
	f.until("the end of a send", func() bool {
		var d *vipl.Descriptor
		d, err = f.b.SendDone()
		return d != nil
	})
	if err != nil && (f.b.State() != vipl.StateError || f.b.Err() == nil) {
		f.t.Fatalf("a send failed in state %v: %v (%v)", f.b.State(), err, f.b.Err())
	}
	if err := f.read.intact(); err != nil {
		f.t.Fatal(err)
	}
	f.again(false)
	f.near.fill()
	for range 16 {
		f.deliver()
	}
}
