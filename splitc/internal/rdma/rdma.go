// Package rdma is the communication layer of Split-C that section 8 of the paper proposes. get is
// an RDMA read, put an RDMA write, and store an RDMA write with immediate data, which notifies the
// owner. The owner takes no part in get and put, so a rank that computes delays no one. Data in the
// heap, and long data elsewhere, are transferred in place without a copy; for puts and stores this
// applies to data of more than 64 bytes. Copying shorter data costs less than registering their
// memory.
//
// Messages have at most 2 KiB. Their data are copied after the header, because most callers may
// change them at once, with one exception: if the data that a reduction sends from the heap are
// longer than what VIs copy into a frame themselves, the VI gathers header and data in place. The
// answer of the reduction confirms their arrival.
//
// # Between two ranks
//
// There is one VI of reliable delivery, with credits receives posted for messages and stores of the
// peer, and some for returned credits. A store consumes a receive without filling it; its immediate
// data are its length. Messages are procedures, their results, and the control messages of the
// upper side. A rank that has processed credits/4 of them returns the credits, in the header of its
// next message or in a message of its own. Such a message needs no credit: at most reserve of them
// are ever in flight.
//
// A put or store is complete when the VI's send is: the owner's VI has stored the data. VIs delay
// acknowledgements so that a message can carry them. A rank that waits for a put sends a small read
// after it. The read is answered at once, and its answer acknowledges the put.
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
	due     = credits / 4 // processed messages after which credits are returned
	reserve = 2 * 4       // further receives, for returned credits
	maxOwed = 4 * credits // results that wait for a rank; at the limit it gets no credits for more calls
	slots   = 128         // sends in progress, to all peers together
	bounce  = 4096        // largest data in bytes that are copied and not registered
	gather  = 256         // smallest data in bytes of a message that are gathered
	part    = 1 << 28     // bytes of an operation in one RDMA operation
)

// Layer is layer.Layer over RDMA.
type Layer struct {
	mesh.Base
	base   uint64             // address of the heap
	ptag   vipl.Ptag          // of all memory and VIs here
	own    vipl.MemAttributes // of memory that peers cannot access
	handle vipl.MemHandle     // of the heap
	peers  []*peer            // nil for this rank
	greets int                // hellos that have not arrived
	calls  calls
	ran    [layer.MaxCall]byte // result of the running procedure

	slab vipl.MemHandle // of the slots
	free []*slot
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{Base: mesh.Base{Config: cfg, Name: "rdma"}, peers: make([]*peer, cfg.Procs), greets: cfg.Procs - 1}
	l.Take = l.handleCompletion
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

// Wait waits until something has arrived or ctx ends. It requests acknowledgements for puts that
// the program waits for.
func (l *Layer) Wait(ctx context.Context) error {
	for _, p := range l.peers {
		if p != nil && p.puts > 0 && !p.asking && p.Gone == nil {
			l.ask(p)
		}
	}
	return l.Base.Wait(ctx)
}

// greet announces this rank's heap to each rank, and waits until all have done the same.
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
			return fmt.Errorf("waiting for the heaps of the other ranks (%d are missing): %w", l.greets, err)
		}
	}
	return nil
}

// Close waits a short time until the last messages have left, and releases everything.
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
	taken   int  // processed messages of the peer whose credits are not returned
	telling bool // a message that returns credits is in flight

	puts   int  // in progress
	asking bool // a read that triggers their acknowledgement is in progress
	prompt slot // for that read

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

// makePeer creates the VI for a rank, and posts its receives.
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
