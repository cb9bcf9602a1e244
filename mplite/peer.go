package mplite

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/channel"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// peerState says what is known of another rank.
type peerState uint8

const (
	peerAbsent   = peerState(job.Absent)   // not connected
	peerGreeting = peerState(job.Greeting) // connected, no hello from it yet
	peerLive     = peerState(job.Live)
	peerDead     = peerState(job.Dead) // err says why
	peerLeft     = peerState(job.Left) // it has finalized
)

// peer is another rank, as this rank sees it.
type peer struct {
	channel.Channel // its sends are the bounce buffers

	w     *world
	rank  int
	state peerState
	err   error // of every operation with it, when dead or left
	acked bool  // dead, and the program has acknowledged that

	leaving bool // it has finalized, and a write is under way still

	credits  int           // data messages that may be sent now
	control  int           // control messages that may be sent now
	eagerMax int           // payload bytes that its receive buffers take
	writes   int           // RDMA writes under way
	queue    list[request] // sends that wait for credits
	pending  controlQueue  // control messages that wait

	owed        int // data credits to return
	owedControl int
	due         int  // owed at which a credit message goes out
	hungry      bool // the peer is out of data credits
	unexpected  int  // receive buffers that hold unexpected messages
	rx          []rxBuf
	withheld    []*rxBuf // free, but not posted until fewer answers wait
}

// rxBuf is a receive buffer, with the message in it while that is unexpected.
type rxBuf = channel.Receive[inbound]

// init makes p's VI and buffers and posts the receives. The VI has a protection
// tag of its own, so that no other rank can write to what p is cleared to write to.
// An attempt to connect takes as long as connect.
func (p *peer) init(connect time.Duration) error {
	w := p.w
	cfg := &w.cfg
	p.control = controlCredits
	p.due = max(1, cfg.Credits/2)
	p.rx = make([]rxBuf, cfg.Credits+controlCredits)
	for i := range p.rx {
		p.rx[i].With.rx = &p.rx[i]
	}
	return channel.Open(&p.Channel, &channel.Config{
		NIC: w.nic, CQ: w.cq.CQ, Context: p, Private: true, Sends: cfg.Credits,
		Size: headerSize + callSize + (max(cfg.EagerSize, job.ReportMax)+7)&^7,
		Attributes: vipl.Attributes{
			EnableRDMAWrite: true,
			QueueDepth:      cfg.Credits + controlCredits + maxWrites,
			PeerTimeout:     cfg.PeerTimeout,
			ConnectTimeout:  max(connect, 1),
		},
	}, p.rx)
}

// clearToSend reports whether an eager message of n bytes could go now.
func (p *peer) clearToSend(n int) bool {
	return p.credits > 0 && n <= p.eagerMax && p.queue.head == nil && p.Room() && p.state == peerLive
}

// post sends the header h and payload through the next bounce buffer, which
// must be free, with whatever credits are owed.
func (p *peer) post(h *header, payload []byte) {
	h.data, h.control = uint16(p.owed), uint8(p.owedControl)
	p.hungry = p.hungry && p.owed == 0 // until something is returned
	p.owed, p.owedControl = 0, 0
	mem := p.Next()
	n := h.put(mem)
	n += copy(mem[n:], payload)
	if err := p.Send(n); err != nil {
		p.refuses(err)
	}
}

// refuses handles that p's VI takes no descriptor, because the connection has ended. After
// this rank's goodbye that of p may be in the completion queue still. The receives that are
// posted come back behind it, and report the failure if there is no goodbye.
func (p *peer) refuses(err error) {
	if !p.w.saidBye {
		p.fail(err)
	}
}

// sent takes back a send descriptor.
func (p *peer) sent(d *vipl.Descriptor) {
	if r, ok := d.Context.(*request); ok {
		p.writes--
		p.wrote(r, d)
	} else {
		p.Sent()
	}
	if d.Status.Failed() {
		p.fail(p.VI.Err())
		return
	}
	p.pump()
}

// received handles a message. It is the one place that knows all kinds.
func (p *peer) received(d *vipl.Descriptor) {
	rx := d.Context.(*rxBuf)
	if d.Status.Failed() {
		p.fail(p.VI.Err())
		return
	}
	if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
		p.writtenTo(d.Immediate)
		p.repostControl(rx)
		return
	}
	var h header
	payload, ok := h.parse(rx.Data())
	if !ok {
		p.fail(errGarbled)
		return
	}
	if h.kind == kindReady && p.state >= peerDead {
		return // what it announces can no longer come
	}
	p.credits += int(h.data)
	p.control += int(h.control)
	switch h.kind {
	case kindEager, kindReady:
		p.arrived(&h, payload, rx)
		if h.flags&flagHungry != 0 {
			p.hungry = true
		}
		if p.pending.Len() > 0 || p.queue.head != nil || p.owed >= p.due || p.hungry {
			p.pump()
		}
		return
	case kindClear:
		p.cleared(&h, payload)
	case kindDone:
		p.acknowledged(&h)
	case kindNack:
		p.refused(&h)
	case kindHello:
		p.greeted(payload)
	case kindBye:
		p.left()
	case kindFail:
		p.told(int(h.tag), payload)
	case kindAbort:
		p.w.shutdown(&AbortError{Rank: p.rank, Code: int(h.tag)})
	case kindAsk:
		p.inquired(&h, payload)
	case kindDiffer:
		p.differed(&h, payload)
	}
	p.repostControl(rx)
}
