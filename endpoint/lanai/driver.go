package lanai

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
)

// end is the host's state of an endpoint. The driver's own privileged endpoint has number 0 of port
// 0.
type end struct {
	slot    int // index among the card's endpoints
	port    uint16
	id      uint32
	owner   listener // nil for the driver
	user    user
	state   endState
	frame   *frame // that it is in, or is being loaded to; nil in a process without the card
	image   []byte // the page while it is not in a frame; always, for a program of another process
	staging staging
	gone    bool // must be removed when it has left its frame

	memory *shared.Memory // memory of image and staging if it is shared with the process that has the card
	bit    int            // its bit in the page of bells, if it is a shared endpoint
	freed  func()         // called when the card has removed it, or nil

	returning uint16 // while it is not in a frame: entries of the send queues whose messages must be returned
	why       [numSends]wire.Reason

	wantsFrame bool  // in the queue of endpoints to load
	asked      int64 // when a message last arrived while it was not in a frame
	wantsPin   bool  // its staging area must be pinned
	wantsDone  bool  // its program waits for an entry of a send queue
	ending     int   // connections that break once it has been read
	news       bool  // the card has reported an event that the program has not processed

	tag, shownTag wire.Tag // as set by the host; as stored in the page

	suspended []*channel // channels that wait for a frame (Config.Suspend)

	post  posting
	shows func() // driver.showPosted
}

type endState uint8

const (
	endAway     endState = iota // in the host's memory
	endComing                   // moving to a frame
	endResident                 // in a frame
	endMoving                   // moving from a frame
)

// endpointSize is the size of an endpoint's record in the card's memory, in bytes.
const endpointSize = 16

func (e *end) privileged() bool { return e.slot == 0 }

// tagIn returns the endpoint's tag from its page.
func (e *end) tagIn(page []byte) wire.Tag {
	return wire.Tag(word(page, tagAt)) | wire.Tag(word(page, tagAt+4))<<32
}

// setTag sets the tag to write to the endpoint's page.
func (e *end) setTag(tag wire.Tag) { e.tag = tag }

// showTag writes an endpoint's tag into its page.
func (d *driver) showTag(e *end) {
	if e.tag == e.shownTag || !e.reachable() {
		return // again after the endpoint has moved
	}
	e.shownTag = e.tag
	var b [8]byte
	setWord(b[:], 0, uint32(e.tag))
	setWord(b[:], 4, uint32(e.tag>>32))
	e.write(tagAt, b[:])
}

// reachable reports whether the host may currently access the endpoint's page.
func (e *end) reachable() bool { return e.state == endAway || e.state == endResident }

// read copies bytes from the endpoint's page, wherever it is.
func (e *end) read(at int, b []byte) {
	if e.state == endResident && e.memory == nil {
		e.frame.page.Read(at, b) // at is within the page
		return
	}
	copy(b, e.image[at:])
}

// write copies bytes to the endpoint's page.
func (e *end) write(at int, b []byte) {
	if e.state == endResident && e.memory == nil {
		e.frame.page.Write(at, b) // at is within the page
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

// share moves the endpoint's page and staging areas to memory that two processes share.
func (e *end) share(m *shared.Memory, bit int) {
	b := m.Bytes()
	e.memory, e.bit = m, bit
	e.image = b[:frameSize:frameSize]
	e.staging.send, e.staging.receive = b[frameSize:][:numSends*stageSize], b[frameSize+numSends*stageSize:][:numReceives*stageSize]
}

// sharedSize is the size of that memory.
const sharedSize = frameSize + stagingSize

// words returns the card's words filled and done.
func (e *end) words() (filled uint32, done uint16) {
	if e.memory != nil {
		return shared.Load(e.image, filledAt), uint16(shared.Load(e.image, doneAt))
	}
	var words [8]byte
	e.read(filledAt, words[:])
	return word(words[:], 0), uint16(word(words[:], doneAt))
}

// want makes the card report free entries of a send queue, or stops the reports.
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
	if _, done := e.words(); done != e.post.done && !e.news { // the program may have looked before
		e.news = true
		e.owner.told(e)
	}
}

// wanted reports whether the host waits for an entry of a send queue.
func (e *end) wanted() bool {
	return e.wantsDone || e.memory != nil && shared.Load(e.image, wantsAt) != 0
}

// starve makes a program of another process ring, or not, when it has taken a message; the card
// notices other programs' reads anyway. It reports whether the program may have taken one before it
// knew.
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

// driver is the host's part that all programs on it share: the virtual network segment driver of
// VNT, 3.2, and requests between programs that involve no endpoint.
type driver struct {
	prog  *program
	host  *station.Host
	clock *clock // nil live
	cfg   *Config

	ends   []*end // by slot; nil for a free one
	by     map[uint64]*end
	load   fifo.Queue[*end] // endpoints that wait for a frame
	spoken bool             // the last loaded endpoint was one for which messages had arrived
	alarm  int64            // when the next of these endpoints may get a frame
	pinned int              // bytes of staging areas
	faults uint64
	newsOf fifo.Queue[*end]

	scratch struct { // results of read, valid for one call
		head entry
		body [inlineSize]byte
		ref  ref
	}

	programs map[uint16]*seat // by port
	lastPort uint16
	far      *far // connection to the process that has the card, if another one has
	control  *end // privileged, and always in frame 0
	queries  queries
	sayings  sayings
	replies  *admission.Gate[ethertype.MAC] // limits the driver's own control messages in flight or waiting, by station
	askAt    int64                          // when to ask about remote programs
}

func keyOf(port uint16, id uint32) uint64 { return uint64(port)<<32 | uint64(id) }

// find returns an endpoint, or nil.
func (d *driver) find(port uint16, id uint32) *end { return d.by[keyOf(port, id)] }

// createEndpoint creates an endpoint. It returns false if the card has its maximum number.
func (d *driver) createEndpoint(port uint16, id uint32, owner listener) (*end, bool) {
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

// forget removes an endpoint. Its slot becomes free when none of its messages is in flight.
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

// vacate frees the slot of a removed endpoint that is in no frame.
func (d *driver) vacate(e *end) {
	d.ends[e.slot] = nil
	if e.freed != nil {
		e.freed()
	}
}

// kick makes the control program run.
func (d *driver) kick() {
	if d.far != nil {
		d.host.Engine.WakeBefore(d.host.Now())
		return
	}
	d.prog.frames[0].page.Ring()
}

// ring makes the card examine an endpoint's page.
func (d *driver) ring(e *end) {
	if d.far != nil {
		d.far.calls.Ring(e.bit)
		return
	}
	e.frame.page.Ring()
}

// rung makes the card examine the page of an endpoint, or loads the endpoint, after a program of another
// process has rung for it. It reports whether the program had a reason to ring.
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

// fault is called by the card: an endpoint needs a frame, or its memory pinned.
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

// want is called by the host: a message must be written to an endpoint that is in no frame.
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

// interrupted handles the card's interrupts.
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

// deliverNews wakes the programs for whose endpoints the card has reported something.
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

// now returns the time that schedules frames. It is constant within a step of the control program:
// if it advanced with the host's clock, a loaded endpoint could be due to leave at once, and the
// step would not end.
func (d *driver) now() int64 {
	if d.prog.stepping {
		return d.prog.now
	}
	return d.host.Now()
}

// assign gives free frames to endpoints that wait for one. It unloads the endpoints that were
// loaded longest ago, but not before a minimum time: their senders have received NACKs and retry
// only from time to time.
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

// drainMost limits the time that an endpoint needs to leave its frame while stations acknowledge its messages, as a
// multiple of Config.Residence. silentMost is the maximum time that a station that does not acknowledge may delay an
// endpoint of another user.
const (
	drainMost  = 4
	silentMost = int64(time.Second)
)

// stuck reports whether an endpoint cannot leave its frame because a station does not acknowledge its messages. If an
// endpoint of another user has waited for too long, stuck returns the unacknowledged messages to their sender.
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

// framesOf returns how many frames hold endpoints of a user.
func (d *driver) framesOf(u user) (n int) {
	for i := range d.prog.frames {
		if e := d.prog.frames[i].end; e != nil && e.user == u && !e.privileged() {
			n++
		}
	}
	return n
}

// next returns the next endpoint to load, among those of the users with the fewest frames. It
// alternates between the endpoint that has waited longest, and the one that has waited longest
// among those for which a message has just arrived. The sender's endpoint is in a frame only for a
// limited time: if its peer were loaded only after all earlier endpoints, the sender's endpoint would no longer be in
// a frame.
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

// bring starts to load an endpoint.
func (d *driver) bring(f *frame, e *end) {
	e.wantsFrame, e.state, e.frame = false, endComing, f
	f.state, f.end = frameLoading, e
	d.kick()
}

// victim returns the next frame to empty, or nil. It chooses a frame of a user with the most frames.
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

// stays returns the minimum time for which an endpoint keeps its frame. It is longer if the
// endpoint has messages to send. Otherwise two cards whose endpoints take turns could each unload
// an endpoint just before the other has loaded its peer.
func (f *frame) stays(cfg *Config) int64 {
	if f.posted != f.done {
		return int64(cfg.SendersStay) * int64(cfg.Residence)
	}
	return int64(cfg.Residence)
}

// due is called by the control program when it is idle, and returns when the driver must run again.
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

// free removes deleted endpoints that have left their frames.
func (d *driver) free() {
	for _, e := range d.ends {
		if e != nil && e.gone && e.frame == nil {
			d.vacate(e)
		}
	}
}

// pin makes the card use an endpoint's staging area. If that exceeds the limit, it unpins the areas
// of endpoints outside frames, the one pinned longest ago first.
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
			break // the areas of endpoints in frames stay pinned
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
