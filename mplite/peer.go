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
