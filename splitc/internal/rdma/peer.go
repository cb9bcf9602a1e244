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
	p := &peer{End: mesh.End{Rank: rank}, credit: credits}
	l.peers[rank] = p
	mem := make([]byte, len(p.recvs)*messageSize+2*headerSize)
	err := l.OpenEnd(&p.End, p, vipl.Attributes{Ptag: l.ptag, EnableRDMAWrite: true, EnableRDMARead: true, ReadDepth: credits,
		QueueDepth: slots + credits + reserve + 2}, mem, p.recvs[:], messageSize)
	mem = mem[len(p.recvs)*messageSize:]
	p.tell.init(mem[:headerSize], p.Mem)
	p.tell.p, p.tell.what = p, opTell
	p.prompt.init(mem[headerSize:][:1], p.Mem)
	p.prompt.p, p.prompt.what = p, opAsk
	return p.VI, err
}
