package rdma

import (
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

// peer is another rank.
type peer struct {
	mesh.End

	handle vipl.MemHandle // of its heap
	base   uint64
	size   uint64 // 0 before its hello

	credit  int  // messages and stores that may be sent now
	taken   int  // of its own, that it has not been told
	telling bool // a message of credits of ours is under way

	puts   int  // under way
	asking bool // a read that has them acknowledged is under way
	prompt slot // for it

	slab  vipl.MemHandle
	recvs [credits + reserve]mesh.Recv
	tell  slot    // for credits
	owed  []reply // results that wait for a credit or a slot
}

// reply is a result that waits.
type reply struct {
	h    header
	data []byte
}

// messageSize is the most bytes of a message.
const messageSize = headerSize + layer.MaxControl

// makePeer makes the VI that is to be connected with a rank, and posts its receives.
func (l *Layer) makePeer(rank, _ int) (*vipl.VI, error) {
	nic := l.NIC
	p := &peer{End: mesh.End{Rank: rank}, credit: credits}
	l.peers[rank] = p
	vi, err := nic.CreateVI(&vipl.Attributes{Ptag: l.ptag, EnableRDMAWrite: true, EnableRDMARead: true, ReadDepth: credits, QueueDepth: slots + credits + reserve + 2,
		PeerTimeout: l.PeerTimeout, ConnectTimeout: l.Timeout}, l.CQ, l.CQ)
	if err != nil {
		return nil, err
	}
	p.VI, vi.Context = vi, p
	slab := make([]byte, len(p.recvs)*messageSize+2*headerSize)
	if p.slab, err = nic.RegisterMem(slab, &l.own); err != nil {
		return nil, err
	}
	p.tell.init(slab[:headerSize], p.slab)
	p.tell.p, p.tell.what = p, opTell
	p.prompt.init(slab[headerSize:][:1], p.slab)
	p.prompt.p, p.prompt.what = p, opAsk
	slab = slab[2*headerSize:]
	for i := range p.recvs {
		p.recvs[i].Init(slab[i*messageSize:][:messageSize], p.slab)
		if err := p.recvs[i].Post(vi); err != nil {
			return nil, err
		}
	}
	return vi, nil
}

// close gives back what makePeer took.
func (p *peer) close(nic *vipl.NIC) {
	if p.VI != nil {
		p.VI.Close()
	}
	if p.slab != 0 {
		nic.DeregisterMem(p.slab)
	}
}
