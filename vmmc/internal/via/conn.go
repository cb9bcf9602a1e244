package via

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc/internal/asking"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// How two processes establish one connection
//
// A process that wants an import first requests a connection at the peer's listener. If both
// request one at the same time, the request of the process with the lower address wins: the other
// process withdraws its own and accepts. The process with the lower address keeps the peer's
// request until its own is decided, and accepts it if its own fails. A process has two ends of a
// connection with itself.

type state uint8

const (
	dialing   state = iota
	accepting       // until the first message
	live
	dead
)

func (s state) String() string {
	return [...]string{"dialing", "accepting", "live", "dead"}[s]
}

// Initial credits of each side, for notifications and for messages. Messages that carry credits
// need no credit; few of them are in flight at a time.
const (
	maxNotes = 32
	maxTalk  = 16
	receives = maxNotes + maxTalk + 8
)

// conn is one end of the connection to another process.
type conn struct {
	p      *Provider
	at     ethertype.Addr // the peer's listener
	peer   provider.Identity
	known  bool   // the peer has identified itself
	dials  uint32 // the peer's number of requested connections, at that time
	state  state
	vi     *vipl.VI
	tag    vipl.Ptag
	theirs *vipl.Request // the peer's request, while this side's own is undecided
	mem    vipl.MemHandle
	recv   [receives]receive

	spare  []*send
	slabs  []vipl.MemHandle
	flying fifo.Queue[*send] // posted on the VI, or waiting for room there, in order
	posted int               // number of these on the VI
	busy   int               // writes in progress

	talk    [][]byte // messages that wait for credit
	mayTalk int
	mayNote int
	notes   fifo.Queue[uint32] // slots whose notifications wait for credit
	oweTalk int                // credits to be returned
	oweNote int

	asking.Imports
	regions map[uint32]*provider.Region
	held    map[*provider.Region]*held
}

// receive is a posted receive with its memory.
type receive struct {
	mem  []byte
	segs [1]vipl.Segment
	desc vipl.Descriptor
}

// newConn creates an end, with its VI. asked means that the other process has requested it.
func (p *Provider) newConn(at ethertype.Addr, asked bool) (*conn, error) {
	own := 0
	for x := range p.conns {
		if x.MAC == at.MAC {
			own++
		}
	}
	if err := provider.Full(at, p.cfg.Connections, len(p.conns), own, 0, asked); err != nil {
		return nil, err
	}
	k := &conn{p: p, at: at, peer: provider.Identity{Addr: at}, mayTalk: maxTalk, mayNote: maxNotes,
		regions: map[uint32]*provider.Region{}}
	k.Imports.Init(k, p.up)
	var err error
	if k.tag, err = p.nic.CreatePtag(); err != nil {
		return nil, err
	}
	slab := make([]byte, receives*messageSize)
	if k.mem, err = p.nic.RegisterMem(slab, &vipl.MemAttributes{Ptag: k.tag}); err == nil {
		for i := range k.recv {
			r := &k.recv[i]
			r.mem = slab[i*messageSize:][:messageSize:messageSize]
			r.segs[0] = vipl.Segment{Data: r.mem, Handle: k.mem}
		}
		if err = p.reserve(p.cfg.Sends + receives); err == nil {
			if err = k.createVI(); err != nil {
				_ = p.reserve(-p.cfg.Sends - receives)
			}
		}
	}
	if err != nil {
		k.drop()
		return nil, err
	}
	return k, nil
}

// createVI creates the VI and posts its receives.
func (k *conn) createVI() (err error) {
	k.vi, err = k.p.nic.CreateVI(&vipl.Attributes{Ptag: k.tag, EnableRDMAWrite: true, QueueDepth: max(k.p.cfg.Sends, receives),
		PeerTimeout: k.p.cfg.PeerTimeout}, k.p.cq.CQ, k.p.cq.CQ)
	if err != nil {
		return err
	}
	k.vi.Context = k
	for i := range k.recv {
		r := &k.recv[i]
		r.desc = vipl.Descriptor{Segs: r.segs[:], Context: r}
		if err := k.vi.PostRecv(&r.desc); err != nil {
			return err
		}
	}
	return nil
}

// dial returns the connection to the process at an address, and starts one if there is none.
func (p *Provider) dial(at ethertype.Addr) (*conn, error) {
	if p.closed {
		return nil, provider.ErrClosed
	}
	if k := p.conns[at]; k != nil {
		return k, nil
	}
	k, err := p.newConn(at, false)
	if err != nil {
		return nil, err
	}
	p.conns[at] = k
	p.dials++
	if err := k.vi.ConnectStart(at, putHello(nil, p.self, p.dials)); err != nil {
		k.fail(err)
		return nil, err
	}
	return k, nil
}

// accept accepts or rejects a connection request.
func (p *Provider) accept(r *vipl.Request) {
	id, dials, ok := parseHello(r.Data(), r.Remote().MAC)
	if !ok {
		p.count.Strangers++
		r.Reject("this is VMMC, of another version or none: build all programs from one source")
		return
	}
	k := p.conns[id.Addr]
	if id.Addr == p.self.Addr {
		k = p.itself
	}
	if k != nil {
		switch {
		case k.known && k.peer.Incarnation == id.Incarnation && dials <= k.dials:
			r.Reject("there is a newer connection")
			return
		case k.state != dialing:
			k.fail(provider.ErrPeer) // it was started again, or takes the connection for broken
		case before(p.self.Addr, id.Addr):
			if k.theirs != nil {
				k.theirs.Reject("asked again")
			}
			k.theirs = r
			return
		default:
			k.yield(r, id, dials)
			return
		}
	}
	k, err := p.newConn(id.Addr, true)
	if err != nil {
		p.count.Strangers++
		r.Reject(err.Error())
		return
	}
	if id.Addr == p.self.Addr {
		p.itself = k
	} else {
		p.conns[id.Addr] = k
	}
	k.acceptRequest(r, id, dials)
}

func before(a, b ethertype.Addr) bool {
	if c := bytes.Compare(a.MAC[:], b.MAC[:]); c != 0 {
		return c < 0
	}
	return a.Port < b.Port
}

// acceptRequest accepts r on the VI of k. Its own hello is the first message.
func (k *conn) acceptRequest(r *vipl.Request, id provider.Identity, dials uint32) {
	k.state, k.peer, k.known, k.dials = accepting, id, true, dials
	if err := r.AcceptStart(k.vi); err != nil {
		r.Reject(err.Error())
		k.fail(err)
		return
	}
	k.say(putHello(message(sayHello), k.p.self, k.p.dials))
}

// yield withdraws the own attempt and accepts the peer's. A connection that is not established has
// only asks, which are asked again.
func (k *conn) yield(r *vipl.Request, id provider.Identity, dials uint32) {
	k.vi.Close()
	for k.flying.Len() > 0 {
		k.recycle(k.flying.Pop())
	}
	k.theirs, k.posted = nil, 0
	k.talk, k.mayTalk, k.mayNote, k.oweTalk, k.oweNote = nil, maxTalk, maxNotes, 0, 0
	if err := k.createVI(); err != nil {
		r.Reject(err.Error())
		k.fail(err)
		return
	}
	k.acceptRequest(r, id, dials)
	k.Asks.Again()
}

// why returns the error with which the connection ended.
func (k *conn) why() error {
	err := k.vi.Err()
	if err == nil {
		err = k.vi.ConnectDone()
	}
	switch {
	case err == nil:
		return provider.ErrPeer
	case errors.Is(err, vipl.ErrReject):
		return fmt.Errorf("%w: %w: %w", provider.ErrPeer, provider.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", provider.ErrPeer, err)
}

// fail ends the connection and everything that depends on it.
func (k *conn) fail(why error) {
	if k.state == dead {
		return
	}
	p, theirs := k.p, k.theirs
	if k.state == dialing && theirs != nil && !p.closed {
		if id, dials, ok := parseHello(theirs.Data(), theirs.Remote().MAC); ok {
			k.yield(theirs, id, dials)
			return
		}
	}
	k.state = dead
	if p.itself == k {
		p.itself = nil
	} else {
		delete(p.conns, k.at)
	}
	p.count.Broken++
	k.vi.Close()
	_ = p.reserve(-p.cfg.Sends - receives)
	for k.flying.Len() > 0 {
		k.end(k.flying.Pop(), why)
	}
	k.endHeld(why)
	untold := k.Grants.End()
	k.drop()
	k.Asks.End(why)
	for _, n := range slices.Sorted(maps.Keys(k.regions)) {
		k.lose(k.regions[n], why)
	}
	for _, g := range untold {
		p.up.Released(g)
	}
}

// drop releases the resources of newConn, except the VI.
func (k *conn) drop() {
	n := k.p.nic
	for _, s := range k.slabs {
		n.DeregisterMem(s)
	}
	if k.mem != 0 {
		n.DeregisterMem(k.mem)
	}
	n.DestroyPtag(k.tag)
}

// violated ends the connection because the peer violated the protocol.
func (k *conn) violated() {
	k.p.count.Violations++
	k.fail(fmt.Errorf("%w: %w: it violates the protocol", provider.ErrPeer, provider.ErrRefused))
}
