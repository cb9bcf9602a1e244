package lanai

import (
	"context"
	"math/rand/v2"
	"runtime"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/shared"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// PageOf returns the frame that an endpoint is in, nil for none.
func PageOf(c *Card, port uint16, id uint32) *hardware.Page {
	if e := c.driver.find(port, id); e != nil && e.state == endResident {
		return e.frame.page
	}
	return nil
}

// Defaults of Config.
const (
	DefaultFrames   = defaultFrames
	DefaultAttempts = defaultAttempts
)

// StagingSize is how many bytes the staging areas of an endpoint have.
const StagingSize = stagingSize

// OthersConn returns the number of a connection that a program has, with another than that of
// station and port.
func OthersConn(c *Card, program uint16, station ethertype.MAC, port uint16) uint32 {
	c.lock()
	defer c.unlock()
	for n, ch := range c.driver.programs[program].listener.(*way).conns {
		if ch.peer.mac != station || ch.peer.port != port {
			return n
		}
	}
	return 0
}

// Desk is Card.Serve in two steps: when it returns, programs can come.
func Desk(c *Card, anyUser bool) (serve func(ctx context.Context) error, err error) {
	return c.desk(anyUser)
}

// Words of a frame.
const (
	DoneAt   = doneAt
	TakenAt  = takenAt
	PostedAt = postedAt
)

// Entry is an entry of a send queue as a program may write it: what goes where.
type Entry struct {
	Flags, Op uint8
	Length    int
	To        ethertype.MAC
	Port      uint16
	Endpoint  uint32
	Message   []byte
}

// The ops of entries.
const (
	OpMessage = opMessage
	OpControl = opControl
)

// Bytes returns the entry, and where entry i of the send queues lies.
func (x *Entry) Bytes(i int) (b []byte, at int) {
	b = make([]byte, entrySize)
	e := entry{x.Flags, x.Op, x.Length, x.To, x.Port, x.Endpoint}
	e.put(b)
	copy(b[entryHead:], x.Message)
	return b, sendAt(i)
}

// FirstOf returns the entry of a set that is sent first by a frame that looks at queue side
// first, and at entry next of each queue.
func FirstOf(set uint16, side int, next [2]int) int {
	f := frame{side: queue(side), sendNext: next}
	return f.firstOf(set)
}

// Spy is what a wild host has learnt from packets that have come: it makes its own of that.
type Spy struct{ seen []header }

// Learn takes in a packet.
func (y *Spy) Learn(payload []byte) {
	var h header
	if _, ok := h.parse(payload); ok {
		y.seen = append(y.seen[max(0, len(y.seen)-32):], h)
	}
}

// Forge returns a packet of any kind, of station from to station to, with what the cards say on
// their channels, as far as it has been heard.
func (y *Spy) Forge(rng *rand.Rand, from, to ethertype.MAC) []byte {
	h := header{channel: channels.Header{Epoch: rng.Uint32()}}
	if n := len(y.seen); n > 0 && rng.IntN(4) > 0 {
		h = y.seen[rng.IntN(n)]
		if h.answer == channels.NackInit {
			h.channel.Epoch, h.channel.Init = h.offer, false
		}
	}
	if rng.IntN(4) == 0 {
		h.channel.Channel = uint8(rng.IntN(64))
		h.channel.Init = rng.IntN(2) == 0
	}
	h.channel.Bit = uint8(rng.IntN(2))
	h.channel.Stamp += uint32(rng.IntN(3))
	h.kind, h.answer, h.offer = kind(rng.IntN(int(kindEnd)+1)), channels.AnswerKind(rng.IntN(12)), rng.Uint32()
	h.queue, h.op = queue(rng.IntN(3)), uint8(rng.IntN(3))
	h.fromPort, h.toPort = uint16(rng.IntN(3)), uint16(rng.IntN(3))
	h.fromEnd, h.toEnd = uint32(rng.IntN(100)), uint32(rng.IntN(100))
	h.from, h.to = from, to
	body := make([]byte, rng.IntN(100))
	for i := range body {
		body[i] = byte(rng.Uint32() >> rng.IntN(32))
	}
	h.length = len(body)
	b := make([]byte, dataHeader+len(body))
	n := h.put(b)
	if h.kind == kindAnswer {
		return b[:n]
	}
	return append(b[:n], body...)
}

// TypeMessage is the packet type of this program, for its tests.
const TypeMessage = typeMessage

// Scribble has a program write anything into all memory that it shares with the process that has the
// card, of which it writes mostly what may mean something, and ring.
func Scribble(c *Card, rng *rand.Rand) {
	c.lock()
	defer c.unlock()
	f := c.driver.far
	for _, e := range f.ends {
		if e == nil {
			continue
		}
		b := e.memory.Bytes()
		for range 64 {
			at := rng.IntN(frameSize)
			if rng.IntN(8) == 0 {
				at = rng.IntN(len(b))
			}
			if b[at] = byte(rng.Uint32()); rng.IntN(2) == 0 {
				b[at] &= 3
			}
		}
		f.calls.Ring(e.bit)
	}
	for range 8 {
		f.bells.Bytes()[rng.IntN(bellsSize)] = byte(rng.Uint32())
	}
	f.calls.Ring(rng.IntN(256))
}

// Babble says anything to the process that has the card.
func Babble(c *Card, rng *rand.Rand) {
	words := []string{doHello, doJoin, doOpen, doName, doLeave, doForget, doUnname, doAsk, doSay, doHeard, "nothing"}
	n := note{Do: words[rng.IntN(len(words))], Port: uint16(rng.IntN(12)), Life: rng.Uint32N(2), ID: rng.Uint32N(8), Bit: rng.IntN(300) - 20, Name: "anything",
		What: topic(rng.IntN(9)), MAC: c.cfg.MAC, Other: uint16(rng.IntN(12)), Conn: rng.Uint32N(8), Body: make([]byte, rng.IntN(64))}
	for i := range n.Body {
		n.Body[i] = byte(rng.Uint32())
	}
	c.driver.far.line.Send(n)
}

// Say makes the program at a port, or the driver if port is 0, say so many things to another station.
func Say(c *Card, port uint16, to ethertype.MAC, times int) { SayLong(c, port, to, times, pairSize) }

// SayLong is Say for things of so many bytes.
func SayLong(c *Card, port uint16, to ethertype.MAC, times, size int) {
	c.lock()
	defer c.unlock()
	for range times {
		c.driver.say(sayGone, peerName{mac: to, port: 1}, c.driver.programs[port], 1, make([]byte, size)...)
	}
}

// Flood makes the program at a port say so many things of so many bytes to another one, that nothing of its own is
// about, of all that a program may say. It returns when all have arrived.
func Flood(c *Card, port uint16, to ethertype.Addr, times, size int) {
	whats := []topic{sayOpen, sayAccept, sayRefuse, sayGone, sayAlive, sayNone}
	for n := range times {
		c.lock()
		c.driver.say(whats[n%len(whats)], peerName{mac: to.MAC, port: to.Port}, c.driver.programs[port], uint32(n), make([]byte, size)...)
		c.unlock()
		for n%MostSayings == MostSayings-1 && Saying(c, port) > 0 {
			runtime.Gosched()
		}
	}
}

// Swamp makes a program of a station say so many long things to the program at a port, which handles nothing meanwhile,
// and after each one so many that need no handling. It returns how many bytes of them wait.
func Swamp(c *Card, port uint16, from ethertype.MAC, times, idle int) (waiting int) {
	c.lock()
	defer c.unlock()
	s, peer := c.driver.programs[port], peerName{mac: from, port: 9}
	for range times {
		s.hear(&c.driver, sayOpen, peer, 1, 1, make([]byte, 2000))
		for range idle {
			s.hear(&c.driver, sayGone, peer, 1, 1, nil)
		}
	}
	for _, x := range s.listener.(*way).items {
		waiting += len(x.data)
	}
	return waiting
}

// Swamped reports whether things that Swamp has said still count as not handled.
func Swamped(c *Card, port uint16, from ethertype.MAC) bool {
	c.lock()
	defer c.unlock()
	return c.driver.programs[port].untaken.Has(ethertype.Addr{MAC: from, Port: 9})
}

// MostUntaken is how many bytes of what others say to a program may wait.
const MostUntaken = mostUntaken

// SayAs makes the driver say so many things to another station, as if a program of a user did.
func SayAs(c *Card, uid uint32, to ethertype.MAC, times int) {
	c.lock()
	defer c.unlock()
	for range times {
		s := newSaying(sayOpen, peerName{mac: to, port: 1}, nil, 1, nil)
		s.user = user(uid)
		c.driver.replies.Enter(to)
		c.driver.send(s)
	}
}

// SetUser has an endpoint be one of a user who shares the card.
func SetUser(c *Card, name wire.Name, uid uint32) {
	c.lock()
	defer c.unlock()
	c.driver.find(name.Addr.Port, name.ID).user = user(uid)
}

// StationReplies is how many sayings of its own to one station a driver has under way, or that wait.
const StationReplies = stationReplies

// Saying returns how many of the things that a program has said are not known to have ended.
func Saying(c *Card, port uint16) int {
	c.lock()
	defer c.unlock()
	return c.driver.programs[port].saying
}

// Limits of what a process may have of a card.
const (
	MostSayings = mostSayings
	MostOrphans = mostOrphans
	MostNames   = mostNames
	MostAsks    = mostAsks
	MostLooked  = mostLooked
	MaxName     = maxName
	AskAgain    = askAgain
)

// Name gives a program that uses a card of another process a name.
func Name(c *Card, port uint16, name string) error {
	_, err := c.driver.far.request(note{Do: doName, Port: port, Name: name})
	return err
}

// Asker returns what makes a program of another process ask for a name, which reports whether the program
// looks for the name, and for how many.
func Asker(c *Card) (ask func(name string) (looks bool, all int)) {
	v := &visitor{tenant: &tenant{card: c}, looked: map[string]struct{}{}}
	return func(name string) (looks bool, all int) {
		c.lock()
		defer c.unlock()
		v.ask(v, name)
		_, looks = v.looked[name]
		return looks, len(v.looked)
	}
}

// deaf is a program that does not look at its endpoints.
type deaf struct{}

func (deaf) told(e *end)                                   { e.news = false }
func (deaf) heard(topic, peerName, uint32, uint32, []byte) {}
func (deaf) stopped() bool                                 { return false }
func (deaf) said(topic, peerKey, uint32, wire.Reason)      {}
func (deaf) found(string, ethertype.Addr)                  {}
func (deaf) attend(int64) (next int64)                     { return transport.Forever }

// ServedEnd makes an endpoint of a program of another process, and returns what posts entries of it, and what
// rings for it and reports whether there was a reason.
func ServedEnd(c *Card) (post func(entries uint16), ring func() (reason bool), err error) {
	m, fd, err := shared.New(sharedSize)
	if err != nil {
		return nil, nil, err
	}
	unix.Close(fd)
	c.lock()
	defer c.unlock()
	e, _ := c.driver.createEndpoint(9, 1, deaf{})
	e.share(m, 0)
	post = func(entries uint16) {
		shared.Store(e.image, postedAt, shared.Load(e.image, postedAt)^uint32(entries))
	}
	ring = func() bool {
		c.lock()
		defer c.unlock()
		return c.driver.rung(e)
	}
	return post, ring, nil
}

// Tenant is an endpoint of a program of another process, as the process that has the card sees it.
type Tenant struct {
	c     *Card
	e     *end
	seat  *seat
	ended *shared.Memory // when the card has forgotten it
}

// NewTenant makes a program of a user with an endpoint.
func NewTenant(c *Card, uid uint32) (*Tenant, error) {
	m, fd, err := shared.New(sharedSize)
	if err != nil {
		return nil, err
	}
	unix.Close(fd)
	c.lock()
	defer c.unlock()
	t := &Tenant{c: c, seat: c.sit(deaf{})}
	e, ok := c.driver.createEndpoint(t.seat.port, 1, deaf{})
	if !ok {
		return nil, provider.ErrResource
	}
	t.e, e.user = e, user(uid)
	e.share(m, 0)
	e.freed = func() {
		clear(m.Bytes())
		t.ended = m
	}
	return t, nil
}

// Post writes an entry, if the card has done with the one before, and rings; with a message in its entry or,
// longer, in the staging area.
func (t *Tenant) Post(i int, x *Entry) {
	t.c.lock()
	defer t.c.unlock()
	posted := shared.Load(t.e.image, postedAt)
	if (posted^shared.Load(t.e.image, doneAt))>>i&1 != 0 {
		return
	}
	if x.Flags&flagStaged != 0 {
		copy(t.e.staging.sendPart(i), x.Message[:connSize])
	}
	b, at := x.Bytes(i)
	copy(t.e.image[at:], b)
	shared.Store(t.e.image, postedAt, posted^1<<i)
	t.c.driver.rung(t.e)
}

// Take takes all that has come.
func (t *Tenant) Take() {
	t.c.lock()
	defer t.c.unlock()
	shared.Store(t.e.image, takenAt, shared.Load(t.e.image, filledAt))
	t.c.driver.rung(t.e)
}

// Name returns where messages for the endpoint go.
func (t *Tenant) Name() (port uint16, id uint32) { return t.e.port, t.e.id }

// Kill ends the program, as when its process has ended.
func (t *Tenant) Kill() {
	t.c.lock()
	defer t.c.unlock()
	t.c.driver.forget(t.e)
	delete(t.c.driver.programs, t.seat.port)
}

// Ended reports whether the card has forgotten the program, and whether it has left its memory alone since.
func (t *Tenant) Ended() (ended, alone bool) {
	if t.ended == nil {
		return false, true
	}
	for _, b := range t.ended.Bytes() {
		if b != 0 {
			return true, false
		}
	}
	return true, true
}

// FlagStaged is of an entry whose message lies in the staging area.
const FlagStaged = flagStaged

// Hello begins to use the card at an interface, as a program that has another version of what both share does, and
// returns what the card answers.
func Hello(ctx context.Context, at iface.Interface, other int) (refused string, err error) {
	conn, _, err := share.Dial(ctx, at, share.AMII, version)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	line := share.NewLine(conn, 0)
	defer line.Finish(0)
	line.Send(note{Do: doHello, Version: version + other})
	var n note
	fds, err := line.Receive(&n)
	closeFiles(fds)
	return n.Error, err
}
