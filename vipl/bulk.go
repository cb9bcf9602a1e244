package vipl

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
)

// Fragments of long messages are marked by their sender (ethertype.FlagBulk).
// A link that can (transport.BulkReceiver) receives them apart from the others,
// straight into memory: the engine guesses which frames come next, which as a
// rule are those that follow the last one, and names the places where their
// data belong. A frame that is not the one guessed is copied out of the wrong
// place before anything else is done, and takes the way of all other frames.
// So a frame may write to memory before it is judged, but only to parts of a
// posted receive or read that have not been received yet, which are undefined
// until it completes. RDMA writes are left out: the memory that they go to holds
// something all the time.
//
// The CRC of marked frames covers the header only, as that of most frames does: a
// connection that wants it to cover all marks none.
//
// The first frame after a pause is not marked. It comes by the ring, which costs
// nothing to look at, and tells that more will come by the other way, which
// costs a system call. And since the other way costs every frame a little, the
// link is asked for it, and peers are told (ethertype.FlagTakesBulk), only when
// the first long message has begun to arrive. If it is not known whether it is
// faster here, that is found out then (bulkTrial); if it is not, the link is told
// to stop, and peers hear of that by the next frame.
//
// What comes in long frames (longRx) is not bulk: it is copied once already.

// bulkRx is the receiving side of bulk frames.
type bulkRx struct {
	link   transport.BulkReceiver // nil: all frames come one way
	from   uint32                 // messages as long as this are bulk
	used   bool                   // the link receives them apart now
	late   int                    // polls in which what came before it did may still be found
	trying bool                   // trial is not over
	trial  bulkTrial
	stream int    // bytes of long messages in this poll, while trying
	idle   int    // polls since one came
	ask    int    // slots to fill next: twice what came last, because a guess for each takes time
	hits   uint64 // frames that were received where they belong
	vi     *VI    // whose frame came last
	slots  []transport.BulkSlot
	frames []bulkFrame
}

// bulkFrame is what is known of the frame in the slot of the same index.
type bulkFrame struct {
	want   aim
	header ethertype.Header
	what   bulkVerdict
}

type bulkVerdict uint8

const (
	bulkBad  bulkVerdict = iota // dropped and counted
	bulkMiss                    // lies in the slot's Frame
	bulkHit                     // its data lies where it belongs
)

// aim is the next fragment expected on a VI.
type aim struct {
	seq    ethertype.Seq
	kind   ethertype.Kind
	flags  ethertype.Flags // FlagImmediate or 0
	msg    ethertype.Seq
	offset uint32
	length uint32 // of the message
}

const (
	bulkFrom = 32 << 10 // bytes
	bulkAsk  = 4        // slots, at the least
	bulkHot  = 64       // polls without a bulk frame after which the engine looks less often
	bulkLook = 32       // polls between looks then
)

func (b *bulkRx) init(n *NIC) {
	b.from = bulkFrom
	link, ok := n.link.(transport.BulkReceiver)
	if !ok || !link.Bulk() || n.info.Unprotected {
		return
	}
	b.link = link
	b.idle = bulkHot
	if b.trying = link.BulkOnTrial(); b.trying {
		b.trial.rules = &bulkRules
	}
}

// allocate makes the slots, when the first is needed.
func (b *bulkRx) allocate(n *NIC) {
	if b.slots != nil {
		return
	}
	b.slots = make([]transport.BulkSlot, len(n.views))
	b.frames = make([]bulkFrame, len(n.views))
	size := n.info.MTU + ethertype.EthernetSize
	room := make([]byte, size*len(n.views))
	for i := range b.slots {
		b.slots[i].Frame = room[i*size : (i+1)*size : (i+1)*size]
	}
}

// due reports whether to look for bulk frames in this poll, in which k of at most
// most others came.
func (b *bulkRx) due(k, most int) bool {
	if !b.used {
		return false
	}
	if b.late > 0 { // those are older than bulk frames, which must not overtake them
		if b.late--; k == most && b.late > 0 {
			return false
		}
		b.late = 0
	}
	if b.idle < bulkHot {
		return true
	}
	b.idle++
	return b.idle%bulkLook == 0
}

// hot reports whether bulk frames are likely to come now.
func (b *bulkRx) hot() bool { return b.used && b.idle < bulkHot }

// wake has the next poll look for bulk frames, because a blocking wait has
// ended, perhaps with one.
func (b *bulkRx) wake() { b.idle = min(b.idle, bulkHot-1) }

// pollBulk takes in the bulk frames that have arrived, a batch at the most, and
// returns how many.
func (n *NIC) pollBulk() int {
	b := &n.bulk
	slots := b.slots[:min(max(b.ask, bulkAsk), len(b.slots))]
	b.target(slots)
	k, err := b.link.RecvBulk(slots)
	if err != nil {
		n.linkError(err)
	}
	b.ask = 2 * k
	if b.idle++; k > 0 {
		b.idle = 0
	}
	for i := range k { // before the first is placed, so that it overwrites none that lies in its place
		b.frames[i].what = n.judge(i)
	}
	for i := range k {
		if f := &b.frames[i]; f.what != bulkBad {
			n.receiveBulk(&b.slots[i], f)
		}
	}
	for i := range slots {
		slots[i].Body = nil
	}
	return k
}

func (n *NIC) receiveBulk(s *transport.BulkSlot, f *bulkFrame) {
	n.stats.RxFrames++
	n.stats.RxBytes += uint64(s.Size)
	payload := s.Frame[ethertype.HeaderSize:][:f.header.Size]
	var placed []byte
	if f.what == bulkHit {
		payload, placed = payload[:s.At-ethertype.HeaderSize], s.Body
		n.bulk.hits++
	}
	n.receiveConn(&f.header, payload, placed)
}

// target fills slots with guesses.
func (b *bulkRx) target(slots []transport.BulkSlot) {
	v := b.vi
	live := v != nil && v.state == StateConnected && v.next.seq == v.rx.Next() && !v.rx.Gap()
	var a aim
	if live {
		a = v.next
	}
	for i := range slots {
		s := &slots[i]
		s.At, s.Body = ethertype.HeaderSize, nil
		if !live {
			continue
		}
		a.turn()
		if s.Body = v.aimed(&a); s.Body == nil {
			live = false
			continue
		}
		s.At += a.extension()
		b.frames[i].want = a
		a.offset += uint32(len(s.Body))
		a.seq++
	}
}

// turn moves a past the end of a message to the next one, which is taken to be
// as long.
func (a *aim) turn() {
	if a.offset < a.length {
		return
	}
	a.msg++
	a.offset = 0
}

func (a *aim) extension() int {
	h := ethertype.Header{Kind: a.kind, Flags: a.flags}
	return h.Extension()
}

// aimed returns the memory where the fragment a belongs, or nil if there is
// none in one piece.
func (v *VI) aimed(a *aim) []byte {
	size := fragment(a.length-a.offset, v.pathData-a.extension())
	d := v.receiveFor(a.msg)
	if a.kind == ethertype.KindReadData {
		d = v.readFor(a.msg)
	}
	if d == nil || a.length > d.total || d.oneSide || d.begun && d.length != a.length {
		return nil
	}
	at := a.offset
	for i := range d.Segs {
		part := d.Segs[i].Data
		if at < uint32(len(part)) {
			if uint32(len(part))-at < size {
				return nil
			}
			return part[at:][:size:size]
		}
		at -= uint32(len(part))
	}
	return nil
}

// judge finds out what lies in slot i. What is not where it belongs is put
// together in the slot's own memory.
func (n *NIC) judge(i int) bulkVerdict {
	s, f := &n.bulk.slots[i], &n.bulk.frames[i]
	if s.Size == 0 { // the link has dropped it
		return bulkBad
	}
	size := min(s.Size, len(s.Frame))
	if _, err := f.header.Parse(s.Frame[:size]); err != nil {
		n.dropInvalid(&f.header, err)
		return bulkBad
	}
	if f.header.Flags&ethertype.FlagBulk == 0 { // the link's filter is at fault; only sequenced frames may go on
		n.stats.drop(DropFormat)
		return bulkBad
	}
	if s.Body != nil && n.bulk.vi.hit(s, f) {
		return bulkHit
	}
	if size > s.At {
		copy(s.Frame[s.At:size], s.Body)
	}
	return bulkMiss
}

// hit reports whether the frame in s is the one that was expected there.
func (v *VI) hit(s *transport.BulkSlot, f *bulkFrame) bool {
	h, a := &f.header, &f.want
	if h.DstPort != v.port || h.Tag != v.localTag || h.Kind != a.kind || h.Flags&(ethertype.FlagImmediate|ethertype.FlagPacked) != a.flags ||
		h.Seq != a.seq || h.Msg != a.msg || h.Offset != a.offset || h.Length != a.length {
		return false
	}
	return int(h.Size) == s.At-ethertype.HeaderSize+len(s.Body)
}

// expect notes what follows the fragment of h, which has been placed in its
// turn and was not packed.
func (v *VI) expect(h *ethertype.Header) {
	b := &v.nic.bulk
	if b.link == nil || h.Length < b.from || h.Kind == ethertype.KindRDMARead || h.Kind == ethertype.KindRDMAWrite || h.Src == v.nic.info.MAC {
		return // what comes from this host does not come as bulk
	}
	if v.flags&ethertype.FlagWholeCRC != 0 || h.Flags&ethertype.FlagTakesLong != 0 {
		return
	}
	size := int(h.Size) - h.Extension()
	if b.trying {
		b.stream += size
	} else if !b.begin(v.nic) {
		return
	}
	v.flags |= ethertype.FlagTakesBulk // from now on every frame to the peer says so
	if !b.used {
		return // marked frames come as all others
	}
	a := &v.next
	*a = aim{seq: h.Seq + 1, kind: h.Kind, flags: h.Flags & ethertype.FlagImmediate, msg: h.Msg,
		offset: h.Offset + uint32(size), length: h.Length}
	b.vi, b.idle = v, 0
}

// marks returns the flag that marks f as bulk, if it is. The caller has told the
// sender's machine of it. While bulk frames are under way all others are marked
// as well, also those that are sent again: one that overtook them by the other
// way would make them look lost. When the peer takes none any more that is no longer
// so, because then they come the same way as all others.
func (v *VI) marks(f *reliability.Sent) ethertype.Flags {
	switch {
	case !v.bulk || v.wide() || v.flags&ethertype.FlagWholeCRC != 0 || v.tx.InFlight() <= 1:
		return 0
	case f.Count == 1 && f.Size > 0 && v.length(f) >= v.nic.bulk.from:
		v.bulkEnd = v.tx.NextSeq()
	case !v.tx.Una().Less(v.bulkEnd):
		return 0
	}
	return ethertype.FlagBulk
}

// length returns the length of the message, or of the answer to a read, that f
// is part of; 0 for others.
func (v *VI) length(f *reliability.Sent) uint32 {
	if f.Flags&sentAnswer != 0 {
		return v.serves.slot(f.First).length
	}
	if d := v.sq.at(f.First); d.Op == OpSend {
		return d.total
	}
	return 0
}
