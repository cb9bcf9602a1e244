// Package rdma is the communication layer of Split-C that the paper's section 8 wishes
// for: get is an RDMA read, put an RDMA write, and store an RDMA write with immediate
// data, of which the owner hears. The owner takes no part in get and put, so a rank that
// computes holds nobody up. Data in the heap, and long ones elsewhere, go from and to where
// they lie, without a copy; of puts and stores, those that have more than 64 bytes. Others
// are short, and copying them costs less than making their memory known would.
//
// Messages have 2 KiB at the most. Their data are copied behind the header, as most callers
// may change them at once, with one exception: what a reduction sends from the heap is
// gathered by the VI, header and data from where each lies, if it is longer than what VIs
// copy into a frame themselves. The answer of the reduction says that it has come.
//
// # Between two ranks
//
// There is one VI of reliable delivery, with credits receives posted for what its peer
// says and stores, and some for credits. A store takes a receive and fills none of it; its
// immediate data are its length. Messages are procedures, their results, and the control
// messages of the side above. Who has taken credits/4 of them says so, in the header of
// the next message or by one of its own, which takes no credit: there are never more of
// those under way than reserve.
//
// A put or store is complete when the VI's send is: the owner's VI has placed it. VIs
// acknowledge late, in the hope of a message to do it with. Who waits for a put sends a small
// read behind it, which is answered at once, and its answer acknowledges the put.
package rdma

import (
	"context"
	"fmt"

	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/mesh"
	"github.com/bobnet-go/bobnet/vipl"
)

const (
	credits = 64          // receives for messages and stores of a peer
	due     = credits / 4 // taken, at which the peer is told
	reserve = 2 * 4       // receives for credits beside them
	maxOwed = 4 * credits // results that wait for a rank, which would have no credits to call for more
	slots   = 128         // sends under way, to all peers together
	bounce  = 4096        // bytes up to which data are copied rather than registered
	gather  = 256         // bytes from which data of a message are gathered
	part    = 1 << 28     // bytes of an operation that go in one RDMA operation
)

// Layer is layer.Layer over RDMA.
type Layer struct {
	mesh.Base
	base   uint64             // address of the heap
	ptag   vipl.Ptag          // of all memory and VIs here
	own    vipl.MemAttributes // of memory that peers do not reach
	handle vipl.MemHandle     // of the heap
	peers  []*peer            // nil for this rank
	greets int                // hellos that have not come
	calls  calls
	ran    [layer.MaxCall]byte // result of the procedure that runs

	slab vipl.MemHandle // of the slots
	free []*slot
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{Base: mesh.Base{Config: cfg, Name: "rdma"}, peers: make([]*peer, cfg.Procs), greets: cfg.Procs - 1}
	l.Take = l.take
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Layer) open(ctx context.Context) (err error) {
	if err = l.Begin(slots + (l.Procs-1)*(credits+reserve+2)); err != nil {
		return err
	}
	if l.ptag, err = l.NIC.CreatePtag(); err != nil {
		return err
	}
	l.own.Ptag = l.ptag
	l.handle, err = l.NIC.RegisterMem(l.Memory, &vipl.MemAttributes{Ptag: l.ptag, EnableRDMAWrite: true, EnableRDMARead: true})
	if err != nil {
		return err
	}
	info, err := l.NIC.QueryMem(l.handle)
	if err != nil {
		return err
	}
	l.base = info.Addr
	if err := l.makeSlots(); err != nil {
		return err
	}
	_, l.Did.Strays, err = mesh.Connect(ctx, mesh.Config{Config: l.Config, Name: l.Name, Kinds: 1, Make: l.makePeer})
	if err != nil {
		return err
	}
	return l.greet(ctx)
}

// Wait waits until something has come or ctx ends. If puts are waited for, their
// acknowledgements are asked for.
func (l *Layer) Wait(ctx context.Context) error {
	for _, p := range l.peers {
		if p != nil && p.puts > 0 && !p.asking && p.Gone == nil {
			l.ask(p)
		}
	}
	return l.Base.Wait(ctx)
}

// greet tells each rank where this one's heap is, and waits until all have done so.
func (l *Layer) greet(ctx context.Context) error {
	for _, p := range l.peers {
		if p != nil {
			if err := l.say(ctx, p, header{kind: kindHello, a: uint64(l.handle), b: l.base, c: uint64(len(l.Memory))}, nil); err != nil {
				return err
			}
		}
	}
	l.Watch.Begin()
	for l.greets > 0 {
		if err := l.Idle(ctx); err != nil {
			return fmt.Errorf("waiting for the heaps of the other ranks, of which %d have not come: %w", l.greets, err)
		}
	}
	return nil
}

// Close waits a little until the last messages have left, and releases everything.
func (l *Layer) Close() {
	l.Leave(func() bool { return len(l.free) == cap(l.free) })
	for _, p := range l.peers {
		if p != nil {
			p.End.Close()
		}
	}
	if l.slab != 0 {
		l.NIC.DeregisterMem(l.slab)
	}
	if l.handle != 0 {
		l.NIC.DeregisterMem(l.handle)
	}
	if l.ptag != 0 {
		l.NIC.DestroyPtag(l.ptag)
	}
	l.Free()
}

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
