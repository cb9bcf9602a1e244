package lanai

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
)

// end is an endpoint, as the host keeps it. The driver's own, which is privileged, has
// number 0 of port 0.
type end struct {
	slot    int // among the card's endpoints
	port    uint16
	id      uint32
	owner   listener // nil for the driver
	user    user
	state   endState
	frame   *frame // that it is in, or comes to; nil in a process that has no card
	image   []byte // the page while it is away; that of a program of another process always
	staging staging
	gone    bool // it is to be forgotten, when it has left its frame

	memory *shared.Memory // of image and staging, if a program of another process has the endpoint, or this process has no card
	bit    int            // of bells, for such an endpoint
	freed  func()         // called when the card has forgotten it, or nil

	returning uint16 // while it is away: entries of the send queues whose messages are to come back
	why       [numSends]wire.Reason

	wantsFrame bool  // it is in the queue of those that are to be loaded
	asked      int64 // when a message has come while it was not in a frame
	wantsPin   bool  // its staging area is to be pinned
	wantsDone  bool  // its program waits for an entry of a send queue
	ending     int   // connections that break when it has been read
	news       bool  // its program has not looked since the card has told it something

	tag, shownTag wire.Tag // as the host has set it, and as the page has it

	suspended []*channel // that wait for a frame (Config.Suspend)

	post  posting
	shows func() // driver.showPosted
}

type endState uint8

const (
	endAway     endState = iota // in the host's memory
	endComing                   // on its way to a frame
	endResident                 // in a frame
	endMoving                   // on its way from a frame
)

// endpointOctets is what the card's memory has of an endpoint, resident or not.
const endpointOctets = 16

func (e *end) privileged() bool { return e.slot == 0 }

// tagIn returns the endpoint's tag, which its page has.
func (e *end) tagIn(page []byte) wire.Tag {
	return wire.Tag(word(page, tagAt)) | wire.Tag(word(page, tagAt+4))<<32
}

// setTag notes what the tag in the endpoint's page is to be.
func (e *end) setTag(tag wire.Tag) { e.tag = tag }

// showTag writes an endpoint's tag into its page.
func (d *driver) showTag(e *end) {
	if e.tag == e.shownTag || !e.reachable() {
		return // when the endpoint has been moved
	}
	e.shownTag = e.tag
	var b [8]byte
	setWord(b[:], 0, uint32(e.tag))
	setWord(b[:], 4, uint32(e.tag>>32))
	e.write(tagAt, b[:])
}

// reachable reports whether the host may read and write the endpoint's page now.
func (e *end) reachable() bool { return e.state == endAway || e.state == endResident }

// read copies octets of the endpoint's page, which is where the endpoint is.
func (e *end) read(at int, b []byte) {
	if e.state == endResident && e.memory == nil {
		e.frame.page.Read(at, b) // it lies in the page
		return
	}
	copy(b, e.image[at:])
}

// write writes octets of the endpoint's page.
func (e *end) write(at int, b []byte) {
	if e.state == endResident && e.memory == nil {
		e.frame.page.Write(at, b) // it lies in the page
		return
	}
	copy(e.image[at:], b)
}

func (e *end) writeWord(at int, v uint32) {
	if e.memory != nil {
		shared.Store(e.image, at, v)
		return
	}
	var b [4]byte
	setWord(b[:], 0, v)
	e.write(at, b[:])
}

// share has the endpoint's page and its staging areas lie in memory that two processes share.
func (e *end) share(m *shared.Memory, bit int) {
	b := m.Bytes()
	e.memory, e.bit = m, bit
	e.image = b[:frameSize:frameSize]
	e.staging.send, e.staging.receive = b[frameSize:][:numSends*stageSize], b[frameSize+numSends*stageSize:][:numReceives*stageSize]
}

// sharedSize is how much memory that is.
const sharedSize = frameSize + stagingSize

// words returns what the card says to have filled and done.
func (e *end) words() (filled uint32, done uint16) {
	if e.memory != nil {
		return shared.Load(e.image, filledAt), uint16(shared.Load(e.image, doneAt))
	}
	var words [8]byte
	e.read(filledAt, words[:])
	return word(words[:], 0), uint16(word(words[:], doneAt))
}

// want has the card tell, or not, when an entry of a send queue is free.
func (e *end) want(yes bool) {
	e.wantsDone = yes
	if e.memory == nil {
		return
	}
	if !yes {
		shared.Store(e.image, wantsAt, 0)
		return
	}
	shared.Store(e.image, wantsAt, 1)
	if _, done := e.words(); done != e.post.done && !e.news { // it may have looked before
		e.news = true
		e.owner.told(e)
	}
}

// wanted reports whether the host waits for an entry of a send queue.
func (e *end) wanted() bool {
	return e.wantsDone || e.memory != nil && shared.Load(e.image, wantsAt) != 0
}

// starve has a program of another process ring, or not, when it has taken something: with others
// the card hears of it anyway. It reports whether the program may have done so before it knew.
func (e *end) starve(yes bool) bool {
	if e.memory == nil {
		return false
	}
	v := uint32(0)
	if yes {
		v = 1
	}
	shared.Store(e.image, starvedAt, v)
	return yes
}

// driver is the host's side that all programs on it share: the virtual network segment
// driver of VNT, 3.2, and what programs ask of each other without having an endpoint for it.
type driver struct {
	prog  *program
	host  *station.Host
	clock *clock // nil live
	cfg   *Config

	ends   []*end // by their slots; nil for a free one
	by     map[uint64]*end
	load   fifo.Queue[*end] // that want a frame
	spoken bool             // the last one loaded was one that was spoken to
	alarm  int64            // when the next one of them may find one
	pinned int              // octets of staging areas
	faults uint64
	newsOf fifo.Queue[*end]

	scratch struct { // what read hands on, valid for one call
		head entry
		body [inlineSize]byte
		ref  ref
	}

	programs map[uint16]*seat // by ports
	lastPort uint16
	far      *far // to the process that has the card, if that is another
	control  *end // privileged, and always in frame 0
	queries  queries
	askAt    int64 // when programs elsewhere are to be asked for
	answers  int   // sayings of the driver itself that have not ended
}

func keyOf(port uint16, id uint32) uint64 { return uint64(port)<<32 | uint64(id) }

// find returns an endpoint, nil if there is none.
func (d *driver) find(port uint16, id uint32) *end { return d.by[keyOf(port, id)] }

// open makes an endpoint. It reports false when the card has as many as it can have.
func (d *driver) open(port uint16, id uint32, owner listener) (*end, bool) {
	slot := 0
	for slot < len(d.ends) && d.ends[slot] != nil {
		slot++
	}
	if slot == d.cfg.Endpoints {
		return nil, false
	}
	if slot == len(d.ends) {
		d.ends = append(d.ends, nil)
	}
	e := d.newEnd(port, id, owner)
	e.slot, e.image = slot, make([]byte, frameSize)
	d.ends[slot], d.by[keyOf(port, id)] = e, e
	return e, true
}

func (d *driver) newEnd(port uint16, id uint32, owner listener) *end {
	e := &end{port: port, id: id, owner: owner, user: userOf(owner)}
	e.shows = func() { d.showPosted(e) }
	return e
}

// forget ends an endpoint. Its slot is another's when nothing of it is under way.
func (d *driver) forget(e *end) {
	delete(d.by, keyOf(e.port, e.id))
	e.gone = true
	if d.far != nil {
		d.far.forget(e)
		return
	}
	e.owner = nil
	d.unpin(e)
	d.load.Keep(func(x **end) bool { return *x != e })
	if f := e.frame; f != nil {
		if f.state == frameLive {
			d.prog.drain(f)
		}
		d.kick()
		return
	}
	d.vacate(e)
}

// vacate makes the slot of an endpoint free that is gone and in no frame.
func (d *driver) vacate(e *end) {
	d.ends[e.slot] = nil
	if e.freed != nil {
		e.freed()
	}
}

// kick has the control program work.
func (d *driver) kick() {
	if d.far != nil {
		d.host.Engine.WakeBefore(d.host.Now())
		return
	}
	d.prog.frames[0].page.Ring()
}

// ring has the card look at an endpoint's page.
func (d *driver) ring(e *end) {
	if d.far != nil {
		d.far.calls.Ring(e.bit)
		return
	}
	e.frame.page.Ring()
}

// rung makes the card look at the page of an endpoint that a program of another process has rung for, or
// load the endpoint. It reports whether the program had a reason to ring.
func (d *driver) rung(e *end) (some bool) {
	posted := uint16(shared.Load(e.image, postedAt))
	switch {
	case e.state == endResident:
		some = posted != e.frame.posted || e.frame.returning != 0
		d.ring(e)
	case posted != uint16(shared.Load(e.image, doneAt)):
		some = e.state == endAway && !e.wantsFrame
		d.want(e)
	}
	return some
}

// fault is the card's: an endpoint needs a frame, or its memory pinned.
func (d *driver) fault(e *end, want *bool) {
	if !*want {
		*want = true
		d.faults++
		if want == &e.wantsFrame {
			d.load.Push(e)
		}
		d.prog.c.Interrupt(causeFault)
	}
}

// want is the host's: a message is to be written into an endpoint that is away.
func (d *driver) want(e *end) {
	if e.wantsFrame || e.state != endAway || e.gone {
		return
	}
	e.wantsFrame = true
	d.faults++
	d.load.Push(e)
	d.assign()
	d.kick()
}

// interrupted is what the card's interrupts call.
func (d *driver) interrupted(causes uint32) {
	if causes&causeFault != 0 {
		for _, e := range d.ends {
			if e != nil && e.wantsPin {
				d.pin(e)
			}
		}
	}
	if causes&(causeFault|causeMoved) != 0 {
		d.assign()
	}
	d.deliverNews()
}

// deliverNews wakes the programs whose endpoints the card has told something.
func (d *driver) deliverNews() {
	for d.newsOf.Len() > 0 {
		switch e := d.newsOf.Pop(); {
		case e.gone:
		case e.privileged():
			d.readControl()
		default:
			e.owner.told(e)
		}
	}
}

// now returns the time by which endpoints take turns to be in frames. Within a step of the control
// program it stands still: if the host's time passed meanwhile, an endpoint that has just come
// could be due to leave again, and the step would not end.
func (d *driver) now() int64 {
	if d.prog.stepping {
		return d.prog.now
	}
	return d.host.Now()
}

// assign gives endpoints that want a frame one, as far as there are any. Those that were
// loaded longest ago go first, but not before they have been there for a while: their
// senders, who have got NACKs, try only now and then.
func (d *driver) assign() {
	d.alarm = transport.Forever
	d.free()
	leaving := 0
	for i := range d.prog.frames {
		switch f := &d.prog.frames[i]; {
		case f.state == frameEmpty:
			if e, ok := d.next(); ok {
				d.bring(f, e)
			}
		case f.state == frameDraining && d.stuck(f): // another one is to leave in its place
		case f.state == frameDraining || f.state == frameSaving:
			leaving++
		}
	}
	for n := d.load.Len() - leaving; n > 0; n-- {
		f := d.victim()
		if f == nil {
			break
		}
		d.prog.drain(f)
		d.kick()
	}
}

// drainMost is how many times Config.Residence an endpoint takes to leave its frame at the most while stations
// answer. silentMost is how long a station may be silent that keeps the endpoint of another user waiting for it.
const (
	drainMost  = 4
	silentMost = int64(time.Second)
)

// stuck reports whether an endpoint cannot leave its frame because a station does not answer. When an endpoint of
// another user has waited for that long enough, what is not answered comes back.
func (d *driver) stuck(f *frame) bool {
	now, stuck, over := d.now(), f.drains+drainMost*int64(d.cfg.Residence), f.drains+silentMost
	switch {
	case d.prog.drained(f):
		return false
	case now < stuck:
		d.alarm = min(d.alarm, stuck)
		return false
	case now < over:
		d.alarm = min(d.alarm, over)
	default:
		for i := range d.load.Len() {
			if (*d.load.At(i)).user != f.end.user {
				d.prog.abandon(f)
				d.kick()
				break
			}
		}
	}
	return true
}

// framesOf returns how many frames have endpoints of a user.
func (d *driver) framesOf(u user) (n int) {
	for i := range d.prog.frames {
		if e := d.prog.frames[i].end; e != nil && e.user == u && !e.privileged() {
			n++
		}
	}
	return n
}

// next returns the endpoint that is to be loaded next, of those whose users have the fewest frames: by turns the
// one that has waited longest, and of those that are being spoken to just now the one that has waited longest.
// The card that speaks has its endpoint in a frame only for a while: one that came when all
// who wait before it have had their turns would find nobody there.
func (d *driver) next() (e *end, ok bool) {
	n := d.load.Len()
	if n == 0 {
		return nil, false
	}
	fewest := len(d.prog.frames)
	for i := range n {
		fewest = min(fewest, d.framesOf((*d.load.At(i)).user))
	}
	d.spoken = !d.spoken
	recent := d.now() - int64(d.cfg.Residence)
	for i := range n {
		x := *d.load.At(i)
		if d.framesOf(x.user) > fewest {
			continue
		}
		if e == nil {
			e = x
		}
		if !d.spoken {
			break
		}
		if x.asked >= recent {
			e = x
			break
		}
	}
	d.load.Keep(func(x **end) bool { return *x != e })
	return e, true
}

// bring begins to load an endpoint.
func (d *driver) bring(f *frame, e *end) {
	e.wantsFrame, e.state, e.frame = false, endComing, f
	f.state, f.end = frameLoading, e
	d.kick()
}

// victim returns the frame that is to be emptied next, nil for none at present: of a user that has the most.
func (d *driver) victim() (f *frame) {
	now, most := d.now(), 0
	for i := range d.prog.frames {
		x := &d.prog.frames[i]
		if x.state != frameLive || x.end.privileged() {
			continue
		}
		if from := x.since + x.stays(d.cfg); from > now {
			d.alarm = min(d.alarm, from)
			continue
		}
		if n := d.framesOf(x.end.user); f == nil || n > most || n == most && x.since < f.since {
			f, most = x, n
		}
	}
	return f
}

// stays returns how long an endpoint has its frame at least: longer if it has something to
// send, or two cards whose endpoints take turns would each unload theirs just before the
// other has loaded the one that is spoken to.
func (f *frame) stays(cfg *Config) int64 {
	if f.posted != f.done {
		return int64(cfg.SendersStay) * int64(cfg.Residence)
	}
	return int64(cfg.Residence)
}

// due is called by the control program when it has done what there was to do: it returns
// when it is to be called again for the driver's sake.
func (d *driver) due(now int64) int64 {
	next := d.attend(now)
	if d.load.Len() == 0 {
		return next
	}
	if now >= d.alarm {
		d.assign()
	}
	return max(min(d.alarm, next), now+1)
}

// free forgets the endpoints that are gone and have left their frames.
func (d *driver) free() {
	for _, e := range d.ends {
		if e != nil && e.gone && e.frame == nil {
			d.vacate(e)
		}
	}
}

// pin has the card use an endpoint's staging area. If that is too much memory, areas of
// endpoints that are away are not pinned any more, those first that were pinned longest ago.
func (d *driver) pin(e *end) {
	e.wantsPin = false
	if e.staging.pinned || e.gone {
		return
	}
	for d.pinned+stagingSize > d.cfg.Pinned {
		var oldest *end
		for _, x := range d.ends {
			if x != nil && x.staging.pinned && x.frame == nil && (oldest == nil || x.staging.used < oldest.staging.used) {
				oldest = x
			}
		}
		if oldest == nil {
			break // those in frames have theirs
		}
		d.unpin(oldest)
	}
	e.staging.make()
	e.staging.pinned, e.staging.used = true, d.faults
	d.pinned += stagingSize
	d.kick()
}

func (d *driver) unpin(e *end) {
	if e.staging.pinned {
		e.staging.pinned = false
		d.pinned -= stagingSize
	}
}
