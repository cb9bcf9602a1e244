package mplite

import (
	"time"

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
	w     *world
	rank  int
	vi    *vipl.VI
	state peerState
	err   error // of every operation with it, when dead or left
	acked bool  // dead, and the program has acknowledged that

	leaving bool // it has finalized, and a write is under way still

	credits  int // data messages that may be sent now
	control  int // control messages that may be sent now
	eagerMax int // payload bytes that its receive buffers take
	writes   int // RDMA writes under way
	tx       []txBuf
	txNext   int           // next bounce buffer to use
	txBusy   int           // bounce buffers in use, the ones before txNext
	queue    list[request] // sends that wait for credits
	pending  controlQueue  // control messages that wait

	owed        int // data credits to return
	owedControl int
	due         int  // owed at which a credit message goes out
	hungry      bool // the peer is out of data credits
	unexpected  int  // receive buffers that hold unexpected messages
	rx          []rxBuf
	withheld    []*rxBuf // free, but not posted until fewer answers wait

	slab vipl.MemHandle
	ptag vipl.Ptag // of the VI and of all memory that goes through it
}

// txBuf is a bounce buffer: header and payload of one message being sent.
type txBuf struct {
	mem  []byte
	desc vipl.Descriptor
	segs [1]vipl.Segment
}

// rxBuf is a receive buffer.
type rxBuf struct {
	mem  []byte
	desc vipl.Descriptor
	segs [1]vipl.Segment
	in   inbound // the message in it, while that is unexpected
}

// init makes p's VI and buffers and posts the receives. The VI has a protection
// tag of its own, so that no other rank can write to what p is cleared to write to.
// An attempt to connect takes as long as connect.
func (p *peer) init(connect time.Duration) (err error) {
	w := p.w
	cfg := &w.cfg
	if p.ptag, err = w.nic.CreatePtag(); err != nil {
		return err
	}
	vi, err := w.nic.CreateVI(&vipl.Attributes{
		Ptag:            p.ptag,
		EnableRDMAWrite: true,
		QueueDepth:      cfg.Credits + controlCredits + maxWrites,
		PeerTimeout:     cfg.PeerTimeout,
		ConnectTimeout:  max(connect, 1),
	}, w.cq.CQ, w.cq.CQ)
	if err != nil {
		return err
	}
	vi.Context = p
	p.vi = vi
	p.control = controlCredits
	p.due = max(1, cfg.Credits/2)
	return p.allocate()
}

// allocate makes p's buffers and posts the receives.
func (p *peer) allocate() error {
	cfg := &p.w.cfg
	numRx, numTx := cfg.Credits+controlCredits, cfg.Credits
	size := headerSize + callSize + (max(cfg.EagerSize, job.ReportMax)+7)&^7
	slab, handle, err := p.w.nic.AllocMem(size*(numRx+numTx), &vipl.MemAttributes{Ptag: p.ptag})
	if err != nil {
		return err
	}
	p.slab = handle
	p.rx = make([]rxBuf, numRx)
	for i := range p.rx {
		rx := &p.rx[i]
		rx.mem, slab = slab[:size:size], slab[size:]
		rx.segs[0] = vipl.Segment{Data: rx.mem, Handle: handle}
		rx.desc = vipl.Descriptor{Segs: rx.segs[:], Context: rx}
		rx.in.rx = rx
		if err := p.vi.PostRecv(&rx.desc); err != nil {
			return err
		}
	}
	p.tx = make([]txBuf, numTx)
	for i := range p.tx {
		tx := &p.tx[i]
		tx.mem, slab = slab[:size:size], slab[size:]
		tx.segs[0].Handle = handle
		tx.desc.Segs = tx.segs[:]
	}
	return nil
}

// close gives back what init took.
func (p *peer) close() {
	nic := p.w.nic
	if p.vi != nil {
		p.vi.Close()
	}
	if p.slab != 0 {
		nic.DeregisterMem(p.slab)
	}
	if p.ptag != 0 {
		nic.DestroyPtag(p.ptag)
	}
}

// clearToSend reports whether an eager message of n bytes could go now.
func (p *peer) clearToSend(n int) bool {
	return p.credits > 0 && n <= p.eagerMax && p.queue.head == nil && p.txBusy < len(p.tx) && p.state == peerLive
}

// post sends the header h and payload through the next bounce buffer, which
// must be free, with whatever credits are owed.
func (p *peer) post(h *header, payload []byte) {
	tx := &p.tx[p.txNext]
	if p.txNext++; p.txNext == len(p.tx) {
		p.txNext = 0
	}
	p.txBusy++
	h.data, h.control = uint16(p.owed), uint8(p.owedControl)
	p.hungry = p.hungry && p.owed == 0 // until something is returned
	p.owed, p.owedControl = 0, 0
	n := h.put(tx.mem)
	n += copy(tx.mem[n:], payload)
	tx.segs[0].Data = tx.mem[:n]
	if err := p.vi.PostSend(&tx.desc); err != nil {
		p.txBusy--
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
		p.txBusy--
	}
	if d.Status.Failed() {
		p.fail(p.vi.Err())
		return
	}
	p.pump()
}

// received handles a message. It is the one place that knows all kinds.
func (p *peer) received(d *vipl.Descriptor) {
	rx := d.Context.(*rxBuf)
	if d.Status.Failed() {
		p.fail(p.vi.Err())
		return
	}
	if d.Status&vipl.StatusOpMask == vipl.StatusOpRemoteRDMAWrite {
		p.writtenTo(d.Immediate)
		p.repostControl(rx)
		return
	}
	var h header
	payload, ok := h.parse(rx.mem[:d.Length])
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
