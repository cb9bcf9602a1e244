package vipl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/mutant"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestMillionMutatedFrames has an honest peer's link throw a million mutated
// frames at a live NIC, an eighth over each link, a third of these on each level. They
// are right as far as the kernel's filters look. Each is counted, nothing but the messages
// between arrives, nothing is written, and the connections hold. Where the link has
// long frames, every fourth mutant is one.
func TestMillionMutatedFrames(t *testing.T) {
	total := siegeFrames() / len(viplinks.All[1:])
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		o := newOnslaught(t, open, nil)
		for i, level := range levels {
			o.connect(level)
			for o.thrown < total*(i+1)/len(levels) {
				o.throw()
				if o.thrown/len(o.batch)%16 == 0 {
					o.deliver()
				}
			}
			o.disconnect()
		}
		if name == longName {
			o.longSeen()
		}
	})
}

// longName is the link that carries long frames.
const longName = "ring"

// longSeen wants many long frames to have gone through the link, both mutants and
// frames of messages.
func (o *onslaught) longSeen() {
	if !o.out.long || o.stretched < o.thrown/5 {
		o.t.Errorf("%d of %d mutants were long frames", o.stretched, o.thrown)
	}
	if n := o.na.Fetched(); n < o.messages/20 {
		o.t.Errorf("of %d messages %d frames went straight to where they belong", o.messages, n)
	}
}

// onslaught is a live connection over a real link that the test's goroutine
// drives at both ends, and what the link of b has sent to a.
type onslaught struct {
	mutant.Frames
	t      *testing.T
	na, nb *vipl.NIC
	out    *recorder
	a, b   *vipl.VI
	in     fenced   // of a, to receive
	msg    *buffers // of b, to send
	near   region   // at a
	far    region   // at b

	batch     [32]transport.Frame
	patience  time.Duration   // of the connection
	long      int             // bytes of the longest messages
	thrown    int             // mutants
	stretched int             // of them, long frames
	valid     uint64          // of them, those that are frames of Bobnet
	joined    uint64          // frames that share one of those
	refused   vipl.DropCounts // the others, and why
	messages  uint64          // delivered
}

// region is memory that peers may read and write, between fences.
type region struct {
	mem []byte
	h   vipl.MemHandle
	all []byte
}

func newRegion(n *vipl.NIC) (r region, err error) {
	r.all = bytes.Repeat(fencePattern, 3)
	r.mem = r.all[fence : 2*fence : 2*fence]
	r.h, err = n.RegisterMem(r.mem, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true})
	return r, err
}

// fill makes the region what untouched wants.
func (r region) fill() { copy(r.mem, bytes.Repeat([]byte{0xA5}, len(r.mem))) }

func (r region) untouched() bool { return bytes.Equal(r.mem, bytes.Repeat([]byte{0xA5}, len(r.mem))) }

// intact reports whether nothing beside the region was written to.
func (r region) intact() bool {
	return bytes.Equal(r.all[:fence], fencePattern) && bytes.Equal(r.all[2*fence:], fencePattern)
}

// recorder counts the frames that a link takes, and keeps a copy of some. It is a
// transport.LongLink where the link is one.
type recorder struct {
	transport.Link
	taken uint64
	keep  bool
	kept  [][]byte
	long  bool               // the link carries long frames
	inner transport.LongLink // the link, if it may
}

func (r *recorder) StartLong() bool {
	r.inner, _ = r.Link.(transport.LongLink)
	r.long = r.inner != nil && r.inner.StartLong()
	return r.long
}

func (r *recorder) ReceiveLong(on bool) bool { return r.long && r.inner.ReceiveLong(on) }

func (r *recorder) Rest() int {
	if r.inner == nil {
		return 0
	}
	return r.inner.Rest()
}

func (r *recorder) Cut() bool { return r.inner != nil && r.inner.Cut() }

func (r *recorder) Fetch(from int, parts [][]byte) bool {
	return r.inner.Fetch(from, parts)
}

func (r *recorder) Send(frames []transport.Frame) (int, error) {
	n, err := r.Link.Send(frames)
	r.taken += uint64(n)
	for i := range frames[:n] {
		if r.keep {
			r.kept = append(r.kept, frames[i].AppendTo(nil))
		}
	}
	return n, err
}

func newOnslaught(t *testing.T, open opener, tuned *reliability.Config) *onslaught {
	o := &onslaught{t: t, out: new(recorder), patience: time.Hour}
	var target transport.Link
	nics := open.nics(t, vipl.Config{Seed: 1, NoService: true, Reliability: tuned}, func(side int, l transport.Link) transport.Link {
		if side == 0 {
			target = l
			return l
		}
		o.out.Link = l
		return o.out
	})
	o.na, o.nb = nics[0], nics[1]
	o.long = 4000
	o.Frames = newFrames(1, min(o.out.Info().MTU, 9000))
	if o.out.long {
		o.Frames = newFrames(1, framing.LongMTU)
		if !target.(transport.LongLink).ReceiveLong(true) { // for other VIs, where this one does not ask
			t.Fatal("no long frames")
		}
	}
	return o
}

// until drives both ends until done.
func (o *onslaught) until(what string, done func() bool) {
	o.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		o.na.Poll()
		o.nb.Poll()
		if time.Now().After(end) {
			s := o.na.Snapshot()
			o.t.Fatalf("%s: did not come to pass; %d mutants thrown, %d of them frames, beside %d frames of the peer; wrong: %v; counted %d, %v; link: %+v",
				what, o.thrown, o.valid, o.out.taken, o.refused, s.RxFrames, s.Dropped, s.Link)
		}
	}
}

// connect connects new VIs and captures some of everything that b can send.
func (o *onslaught) connect(level reliability.Level) {
	t := o.t
	attr := &vipl.Attributes{Reliability: level, EnableRDMAWrite: true, EnableRDMARead: level.Reliable(), PeerTimeout: o.patience}
	o.a, o.b = join(t, [2]*vipl.NIC{o.na, o.nb}, attr)
	var errs [4]error
	o.in, errs[0] = newFenced(o.na, 16, o.long)
	o.msg, errs[1] = newBuffers(o.nb, 1, o.long)
	o.near, errs[2] = newRegion(o.na)
	o.far, errs[3] = newRegion(o.nb)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	o.postAll()
	o.capture(level)
	o.near.fill()
}

// postAll posts all of a's receives.
func (o *onslaught) postAll() {
	for i := range o.in.descs {
		o.repost(&o.in.descs[i])
	}
}

// honest is how many messages capture sends.
const honest = 9

// capture has each side use the other and keeps the frames of b.
func (o *onslaught) capture(level reliability.Level) {
	var reads, receives int
	for o.out.long && level.Reliable() && !o.b.Wide() {
		o.post(o.b, vipl.OpSend, o.msg, o.long, region{})
		o.until("a long message", func() bool {
			d, _ := o.a.RecvDone()
			if d != nil {
				o.repost(d)
			}
			return d != nil
		})
		o.until("its end", func() bool { _, err := o.b.SendDone(); return err == nil })
	}
	o.out.keep, o.out.kept = true, nil
	for _, size := range [honest]int{10, 20, 20, 20, 20, 20, 3000, o.long, o.long} {
		o.post(o.b, vipl.OpSend, o.msg, size, region{})
		receives++
	}
	o.post(o.b, vipl.OpRDMAWrite, o.msg, 3000, o.near)
	if level.Reliable() {
		o.post(o.b, vipl.OpRDMARead, o.msg, 3000, o.near)
		o.post(o.a, vipl.OpRDMARead, o.in.buffers, 3000, o.far) // answered in frames of b
		reads++
	}
	o.until("an honest exchange", func() bool {
		if d, _ := o.a.RecvDone(); d != nil {
			o.repost(d)
			receives--
		}
		if d, _ := o.a.SendDone(); d != nil {
			reads--
		}
		_, err := o.b.SendDone()
		return receives == 0 && reads == 0 && err == vipl.ErrQueueEmpty
	})
	o.out.keep, o.Right = false, o.out.kept
}

// post posts an operation with memory of from, which is large enough.
func (o *onslaught) post(v *vipl.VI, op vipl.Op, from *buffers, size int, to region) {
	o.t.Helper()
	d := &vipl.Descriptor{Op: op, Segs: []vipl.Segment{{Data: from.mem[:size], Handle: from.h}}}
	if op != vipl.OpSend {
		d.Remote = vipl.RemoteSegment{Addr: vipl.VirtualAddress(to.mem), Handle: to.h}
	}
	if err := v.PostSend(d); err != nil {
		o.t.Fatal(err)
	}
}

func (o *onslaught) repost(d *vipl.Descriptor) {
	o.t.Helper()
	if err := o.a.PostRecv(d); err != nil {
		o.t.Fatal(err)
	}
}

// throw sends a batch of mutants.
func (o *onslaught) throw() {
	for i := range o.batch {
		f := o.fit(o.Wrong(nil))
		if o.out.long && i%4 == 0 {
			f = o.stretch(f)
		}
		o.load(i, f)
	}
	o.fire(o.batch[:])
}

// load makes a mutant frame i of the batch, and notes as what it is to be counted.
func (o *onslaught) load(i int, f []byte) {
	h := new(ethertype.Header)
	if o.right(h, f) {
		o.valid++
		for first, next := *h, h.Next(f); next != nil && o.right(h, next); next = h.Next(next) {
			if o.joined++; !framing.Beside(h, &first) {
				break // it is dropped, and so is what is behind it
			}
		}
	}
	if len(f) > o.out.Info().MTU+ethertype.EthernetSize {
		o.stretched++
	}
	o.batch[i].Head = append(o.batch[i].Head[:0], f...)
}

// right reports whether f is a frame of Bobnet, whose header is in h then, and if not notes why it
// is to be refused.
func (o *onslaught) right(h *ethertype.Header, f []byte) bool {
	_, err := h.Parse(f)
	_, sealed := framing.IsSealed(f)
	switch {
	case err == nil:
		return true
	case sealed:
		o.refused[drops.Sealed]++
	case err == ethertype.ErrShort:
		o.refused[drops.Short]++
	case err == ethertype.ErrRange:
		o.refused[drops.Range]++
	case err == ethertype.ErrCRC:
		o.refused[drops.CRC]++
	default:
		o.refused[drops.Format]++
	}
	return false
}

// fire sends frames that have been loaded and wants each counted as what it is.
func (o *onslaught) fire(batch []transport.Frame) {
	o.thrown += len(batch)
	for rest := batch; len(rest) > 0; o.na.Poll() {
		n, err := o.out.Link.Send(rest)
		if err != nil {
			o.t.Fatal(err)
		}
		rest = rest[n:]
	}
	o.until("the count of mutants", o.counted)
}

// fit makes a mutant pass the filters of links, which look at addresses, type,
// version and port, and some at where it comes from. A changed frame has a wrong
// CRC afterwards at the latest.
func (o *onslaught) fit(f []byte) []byte {
	right := o.Right[0]
	f = mutant.Fit(f, right)
	copy(f[framing.OffsetDstPort:][:2], right[framing.OffsetDstPort:])
	return f
}

// stretch makes a mutant so long that only a long frame can hold it, a few as long
// as one can be. What is added lies behind the payload of most; of a frame that was
// cut short it takes the place of what is missing, or of some of it.
func (o *onslaught) stretch(f []byte) []byte {
	least := o.out.Info().MTU + ethertype.EthernetSize + 1
	size := least + o.RNG.IntN(2000)
	if o.RNG.IntN(100) == 0 {
		size = least + o.RNG.IntN(o.Longest-least+1)
	}
	for len(f) < size {
		f = append(f, noise[:min(len(noise), size-len(f))]...)
	}
	return f
}

// noise is what mutants are stretched by.
var noise = bytes.Repeat([]byte("\xff\x00\xa5\x01"), 1024)

// counted reports whether all that the link of b has taken is in a's counters,
// under the right reason. Frames that are right may be dropped afterwards for
// their content, which adds to some.
func (o *onslaught) counted() bool {
	s := o.na.Snapshot()
	var sum, refused uint64
	for why, n := range s.Dropped {
		switch why := drops.Reason(why); {
		case why == drops.Incomplete: // counts messages
			continue
		case n < o.refused[why]:
			return false
		case n > o.refused[why] && (why == drops.Short || why == drops.CRC):
			o.t.Fatalf("%d frames dropped as %v, want %d", n, why, o.refused[why])
		}
		sum += n
		refused += o.refused[why]
	}
	want := o.out.taken + o.valid
	if s.RxFrames > want || sum > refused+want+o.joined {
		o.t.Fatalf("%d right and %d wrong frames were counted as %d, %v", want, refused, s.RxFrames, s.Dropped)
	}
	return s.RxFrames == want
}

// deliver sends one message and wants it, and it alone, intact.
func (o *onslaught) deliver() {
	o.t.Helper()
	o.messages++
	d := &o.msg.descs[0]
	out := o.msg.mem[:50+o.messages%3000]
	if o.messages%8 == 0 {
		out = o.msg.mem
	}
	content(o.messages, 0, out)
	d.Segs[0].Data = out
	if err := o.b.PostSend(d); err != nil {
		o.t.Fatal(err, o.b.Err())
	}
	var r *vipl.Descriptor
	var err error
	o.until("an honest message", func() bool { r, err = o.a.RecvDone(); return r != nil })
	if err != nil || int(r.Length) != len(out) || check(o.messages, 0, r.Segs[0].Data[:r.Length]) != nil {
		o.t.Fatalf("after %d mutants a message of %d bytes came as %d: %v (%v)", o.thrown, len(out), r.Length, err, o.a.Err())
	}
	o.repost(r)
	o.until("the end of a send", func() bool { d, err = o.b.SendDone(); return d != nil })
	if err != nil {
		o.t.Fatal(err, o.b.Err())
	}
}

// disconnect wants nothing to be left that nobody sent, and takes all back.
func (o *onslaught) disconnect() {
	if r, err := o.a.RecvDone(); r != nil || o.a.State() != vipl.StateConnected || o.b.State() != vipl.StateConnected {
		o.t.Fatalf("a receive is complete, or a connection did not hold: %v; %v, %v", err, o.a.Err(), o.b.Err())
	}
	if !o.near.untouched() {
		o.t.Fatal("a region was written to")
	}
	if !o.near.intact() || !o.far.intact() {
		o.t.Fatal("memory beside a region was written to")
	}
	if err := o.in.intact(); err != nil {
		o.t.Fatal(err)
	}
	if err := errors.Join(o.a.Close(), o.b.Close()); err != nil {
		o.t.Fatal(err)
	}
}

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
	for _, frame := range f.Right {
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
	addControl(&f.Frames)
	honest := len(f.Right)
	f.message(last)
	f.fragments = f.Right[honest:]
}

// message adds the fragments of a message as long as a receive, none of them packed, to
// the captured frames.
func (f *forgery) message(h ethertype.Header) {
	h.Kind, h.Flags = ethertype.KindData, h.Flags&ethertype.FlagTakesLong
	h.Msg, h.Offset, h.Length, h.Count = f.dueMsg, 0, uint32(f.long), 1
	step := (f.Longest - ethertype.HeaderSize) &^ 63 // as senders cut for large frames
	for h.Offset < h.Length {
		h.Seq++
		if h.Size = uint16(min(step, f.long-int(h.Offset))); h.Offset+uint32(h.Size) == h.Length {
			h.Flags |= ethertype.FlagLast
		}
		frame := make([]byte, ethertype.HeaderSize+int(h.Size))
		h.Put(frame)
		ethertype.Seal(frame)
		f.Right = append(f.Right, frame)
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
	if f.level.Reliable() && !f.reading && f.RNG.IntN(2) == 0 {
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
	frame := f.fit(f.Mutate())
	if f.RNG.IntN(2) == 0 {
		f.number(frame, f.RNG.IntN(3), f.RNG.IntN(3))
	}
	if f.RNG.IntN(2) == 0 {
		f.aim(frame)
	}
	mutant.Reseal(frame)
	return frame
}

// number gives a frame numbers a little behind those that are due.
func (f *forgery) number(frame []byte, seq, msg int) {
	be := binary.BigEndian
	be.PutUint32(frame[26:], uint32(f.dueSeq)+uint32(seq))
	if mutant.Kind(frame) != ethertype.KindReadData {
		be.PutUint32(frame[34:], uint32(f.dueMsg)+uint32(msg))
	} else if f.reading {
		be.PutUint32(frame[30:], uint32(f.dueAck))
		be.PutUint32(frame[34:], uint32(f.dueRead))
	}
}

// aim has a frame that names memory of a name some that is closed to peers, or about
// the edges of what is open.
func (f *forgery) aim(frame []byte) {
	kind := mutant.Kind(frame)
	if kind != ethertype.KindRDMAWrite && kind != ethertype.KindRDMARead || len(frame) < ethertype.HeaderSize+ethertype.RDMASize {
		return
	}
	all, h := f.near.all, f.near.h
	if f.RNG.IntN(2) == 0 {
		all, h = f.in.all, f.in.h
	}
	at := vipl.VirtualAddress(all) + f.RNG.Uint64N(uint64(len(all)))
	ethertype.RDMA{Addr: at, Handle: uint32(h), Immediate: f.RNG.Uint32()}.Put(frame[ethertype.HeaderSize:])
}

// train loads the fragments of a long message, which come in their turn. Some have
// fields changed. It returns how many they are.
func (f *forgery) train() int {
	for i, frame := range f.fragments {
		frame = bytes.Clone(frame)
		if f.RNG.IntN(8) == 0 {
			mutant.Flip(f.RNG, frame[26:58])
		}
		mutant.Reseal(frame)
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
