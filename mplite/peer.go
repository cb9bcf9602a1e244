package mplite

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/vipl"
)

// peerState is the state of another rank, as far as this rank knows.
type peerState uint8

const (
	peerAbsent   = peerState(joining.Absent)   // not connected
	peerGreeting = peerState(joining.Greeting) // connected, no hello from it yet
	peerLive     = peerState(joining.Live)
	peerDead     = peerState(joining.Dead) // err says why
	peerLeft     = peerState(joining.Left) // it has finalized
)

// peer is another rank, as this rank sees it.
type peer struct {
	channel.Channel // its sends are the bounce buffers

	w     *world
	rank  int
	state peerState
	err   error // error of every operation with it, when dead or left
	acked bool  // dead, and the program has acknowledged that

	leaving bool // it has finalized, and a write is still in progress

	near       uint16               // the port of another process of this host whose memory this rank may try to read, or 0
	unreadable bool                 // such a read has failed
	taken      fifo.Queue[*request] // receives whose messages have been copied; the peer must still be notified

	caller  bool      // this rank made the attempt to connect
	givenUp int64     // time, on the NIC's clock, since which the peer has given up every attempt to connect; 0 if it has not
	params  [2]uint32 // size and number of its receive buffers, before there is a connection

	credits  int           // data messages that may be sent now
	control  int           // control messages that may be sent now
	eagerMax int           // payload bytes that its receive buffers hold
	writes   int           // RDMA writes in progress
	queue    list[request] // sends that wait for credits
	pending  controlQueue  // control messages that wait

	owed        int // data credits to return
	owedControl int
	due         int      // value of owed at which a credit message is sent
	hungry      bool     // the peer is out of data credits
	room        int      // receive buffers for its data messages: all data credits that it has ever had
	controlRoom int      // receive buffers for its control messages
	unexpected  int      // receive buffers that hold unexpected messages
	withheld    []*rxBuf // free, but not posted until fewer answers wait

	land landing
}

// peer returns another rank. A rank takes no memory before its first use.
func (w *world) peer(rank int) *peer {
	p := w.peers.At(rank)
	if p == nil {
		p = &peer{w: w, rank: rank}
		if w.fatal != nil {
			p.state, p.err = peerDead, w.fatal
		}
		w.peers.Set(rank, p)
	}
	return p
}

// rxBuf is a receive buffer, with the message in it while that is unexpected.
type rxBuf = channel.Receive[inbound]

// init makes p's VI and buffers and posts the receives. The VI has a protection
// tag of its own, so that no other rank can write to what p is cleared to write to.
// An attempt to connect takes as long as connect.
func (p *peer) init(connect time.Duration) error {
	w := p.w
	cfg := &w.cfg
	p.room, p.controlRoom = w.firstCredits(cfg.Credits)
	p.control = p.controlRoom // the same at every rank
	p.due = max(1, p.room/2)
	return channel.Open(&p.Channel, &channel.Config{
		NIC: w.nic, CQ: w.cq.CQ, Context: p, Private: true, Sparse: w.onUse, Sends: cfg.Credits,
		More: cfg.Credits - p.room + controlCredits - p.controlRoom, Size: w.bufferSize(),
		Attributes: vipl.Attributes{
			EnableRDMAWrite: true,
			QueueDepth:      cfg.Credits + controlCredits + maxWrites,
			PeerTimeout:     cfg.PeerTimeout,
			ConnectTimeout:  max(connect, 1),
		},
	}, newBuffers(p.room+p.controlRoom))
}

// bufferSize returns the size of a receive buffer in bytes.
func (w *world) bufferSize() int {
	return headerSize + callSize + (max(w.cfg.EagerSize, joining.ReportMax)+7)&^7
}

// newBuffers returns n receive buffers.
func newBuffers(n int) []rxBuf {
	rx := make([]rxBuf, n)
	for i := range rx {
		rx[i].With.rx = &rx[i]
	}
	return rx
}

// Credits. Every message fills one receive buffer that its receiver has posted. A message
// without a posted buffer would end the connection. So a sender spends one credit per
// message. The receiver returns the credit, piggybacked on any message, when it has
// posted the buffer again.
//
// There are two pools of credits. Data messages (eager, ready) may stay in their buffer
// until a receive matches, so their credits may not return for a long time: this is the
// backpressure on a flood of unexpected messages. Control messages are consumed on
// arrival and have controlCredits of their own, so that they can be sent even without
// data credits. A message that only returns credits is a control message, too. The last
// control credit is reserved for such a message, and only for one that returns at least
// half of the peer's control credits. So the two sides can never run out of control
// credits at the same time.
//
// A connection on first use begins with few credits, because most ranks exchange few
// messages with most others. A peer whose message has taken the last data credit gets as
// many more as it has had, up to Config.Credits. A peer that has sent so many control
// messages without an answer that their credits must be returned gets all controlCredits.
//
// Data messages may need answers, which are control messages. While many answers wait
// because the peer returns no control credits, the peer gets no data credits either.
const (
	controlCredits = 8
	maxWrites      = 8 // maximum RDMA writes in progress to one peer

	firstData    = 4 // data credits at the beginning of a connection on first use
	firstControl = 4 // control credits
)

// firstCredits returns the number of data and control credits that a rank has at the
// beginning of a connection with a rank whose Config.Credits is most.
func (w *world) firstCredits(most int) (data, control int) {
	if w.onUse {
		return min(most, firstData), firstControl
	}
	return most, controlCredits
}

// grow posts more receive buffers for data messages of p, which has spent all credits. p gets the
// credits with the next message.
func (p *peer) grow() {
	more := min(p.room, p.w.cfg.Credits-p.room)
	if more > 0 && !p.congested() && p.extend(more) {
		p.room += more
		p.owed += more
		p.due = max(1, p.room/2)
	}
}

// growControl is grow for control messages.
func (p *peer) growControl() {
	if more := controlCredits - p.controlRoom; more > 0 && p.extend(more) {
		p.controlRoom += more
		p.owedControl += more
	}
}

// extend posts more receive buffers, and reports whether p's VI has taken them.
func (p *peer) extend(more int) bool {
	if p.state >= peerDead {
		return false
	}
	err := channel.Add(&p.Channel, newBuffers(more), p.w.bufferSize())
	if err != nil {
		p.refuses(err)
	}
	return err == nil
}

// pump sends the waiting messages that can be sent now.
func (p *peer) pump() {
	if p.state == peerAbsent {
		return
	}
	p.sayTaken()
	for p.pending.Len() > 0 && p.control > 1 && p.Room() && p.state != peerDead {
		if p.pending.At(0).kind == kindInvalid && p.writes == maxWrites {
			break
		}
		p.control--
		c := p.pending.Pop()
		if c.kind == kindInvalid {
			p.write(c.req)
			continue
		}
		p.sendControl(c)
	}
	for last := len(p.withheld) - 1; last >= 0 && !p.congested(); last-- {
		rx := p.withheld[last]
		p.withheld = p.withheld[:last]
		p.repost(rx)
	}
	for p.queue.head != nil && p.credits > 0 && p.Room() && p.state == peerLive {
		r := p.queue.head.of
		p.queue.remove(&r.place)
		p.launch(r)
	}
	p.returnCredits()
}

// returnCredits sends a credit message if enough is owed, or anything to a
// hungry peer.
func (p *peer) returnCredits() {
	forced := p.returnsControl()
	if p.owed < p.due && !forced && !p.landingDue() && (!p.hungry || p.owed == 0) {
		return
	}
	if p.control < 1 || p.control == 1 && !forced || !p.Room() || p.state >= peerDead {
		return
	}
	p.control--
	p.w.stats.CreditMessages++
	p.post(&header{kind: kindCredit}, nil)
}

// returnsControl reports whether p must get back control credits, because half of them are owed.
func (p *peer) returnsControl() bool { return p.owedControl >= p.controlRoom/2 }

// returnSoon sends a credit message if one is due and no answer to p has returned the
// credits.
func (p *peer) returnSoon() {
	if p.owed >= p.due || p.hungry || p.landingDue() {
		p.pump()
	}
}

// congested reports whether so many control messages wait for p that it gets no
// data credits until some have gone.
func (p *peer) congested() bool { return p.pending.Len() >= p.w.cfg.Credits }

// withhold keeps a free receive buffer until p is not congested.
func (p *peer) withhold(rx *rxBuf) {
	if p.full() {
		p.fail(errOverspent)
		return
	}
	p.withheld = append(p.withheld, rx)
}

// full reports whether the receive buffers that are withheld or hold unexpected messages
// are as many as all data credits that p has ever had. A peer that then sends another
// data message breaks the rules. It must be detected here, while receives are still
// posted: without a posted receive, nothing would report the end of the connection.
func (p *peer) full() bool { return p.unexpected+len(p.withheld) >= p.room }

// repost posts a receive buffer again, and then owes the peer a data credit.
func (p *peer) repost(rx *rxBuf) {
	if p.state >= peerDead {
		return
	}
	if p.congested() {
		p.withhold(rx)
		return
	}
	if err := p.Repost(&rx.Buffer); err != nil {
		p.refuses(err)
		return
	}
	p.owed++
}

// repostControl is repost for the buffer of a control message. It then sends the messages
// that the credits in that message allow.
func (p *peer) repostControl(rx *rxBuf) {
	if p.state >= peerDead {
		p.pump() // this rank's goodbye may wait for the credits that have come
		return
	}
	if err := p.Repost(&rx.Buffer); err != nil {
		p.refuses(err)
		return
	}
	p.owedControl++
	if p.returnsControl() {
		p.growControl()
	}
	p.pump()
}

// control is a control message that waits for a credit. Kind 0 stands for the
// RDMA write of req, which spends a control credit because its immediate data
// fills a receive.
type control struct {
	kind   kind
	tag    int32
	sendID uint32
	recvID uint32
	size   uint64
	target target
	req    *request

	context uint32
	body    []byte // body of reports about collectives and failed ranks
}

// controlQueue holds the control messages for a peer that wait for credits. It contains
// at most one write for each request, one report of each failed rank, one inquiry for
// each operation of a collective, one report of each failed call, and one withdrawal for
// each send that the program here has given up. It also contains answers, at most as many
// as a congested peer has messages here, in receive buffers or spilled.
type controlQueue struct{ fifo.Queue[control] }

// withdraw replaces r's waiting write by a message that the receiver will get no write.
// It reports whether the write was still waiting.
func (q *controlQueue) withdraw(r *request) bool {
	for i := range q.Len() {
		if c := q.At(i); c.req == r {
			*c = control{kind: kindNack, recvID: r.remoteID}
			return true
		}
	}
	return false
}

// say sends a control message as soon as there is a credit for it. A rank that has left
// waits for this rank's goodbye, and for nothing else.
func (p *peer) say(c control) {
	if p.state >= peerDead && !(p.state == peerLeft && c.kind == kindBye) {
		return
	}
	p.pending.Push(c)
	p.need()
	p.pump()
}

// sendControl sends c, whose credit has been spent.
func (p *peer) sendControl(c control) {
	h := header{kind: c.kind, tag: c.tag, sendID: c.sendID, recvID: c.recvID, size: c.size, context: c.context}
	switch c.kind {
	case kindClear, kindLand:
		var body [targetSize]byte
		c.target.put(body[:])
		p.post(&h, body[:])
	case kindHello:
		p.post(&h, p.w.job.Hello())
	case kindFail:
		p.post(&h, c.body)
	default:
		p.post(&h, c.body[:min(len(c.body), p.eagerMax, p.w.cfg.EagerSize)])
	}
}
