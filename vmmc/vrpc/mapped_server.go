package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
)

// door is where clients over VMMC come to.
type door struct {
	server *Server
	proc   *vmmc.Process
	export *vmmc.Export
	ctx    context.Context
	cancel context.CancelFunc

	knocking chan vmmc.Peer
	refusing atomic.Int64  // clients that are being told that there are too many
	patience time.Duration // with who has knocked
}

// maxKnocking bounds the clients that have knocked and were not seen to, and those that are
// refused at the same time.
const maxKnocking = 64

// greetPatience is how long the making of a connection may take.
const greetPatience = 30 * time.Second

// ListenVMMC makes the server answer over VMMC, for clients that the policy allows, until
// Close. Clients dial the returned name (VMMCAddr makes text of it), or find the programs that
// are registered now by number (DialVMMCProgram). Each client has a ring of
// ServerConfig.Ring bytes in the memory of p, which the caller closes. Numbers of exports from
// 0xe0000000 on are reserved for this package.
func (s *Server) ListenVMMC(p *vmmc.Process, id uint32, policy vmmc.Policy) (vmmc.Name, error) {
	self := p.Self()
	name := vmmc.Name{Node: self.Node, Process: self.Process, ID: id}
	if id >= firstRingID {
		return name, fmt.Errorf("vrpc: export %#x: numbers from %#x on are for rings", id, uint32(firstRingID))
	}
	d, err := newDoor(s, p, id, policy)
	if err != nil {
		return name, err
	}
	for _, prog := range s.programs() {
		if err := d.export.Advertise(programWord(prog.number, prog.version)); err != nil {
			d.cancel()
			return name, errors.Join(err, d.remove())
		}
	}
	if err := s.Start(d, d.accept); err != nil {
		return name, errors.Join(err, d.remove())
	}
	s.AddEndpoint(Endpoint{"vmmc", mappedAddr(name)})
	return name, nil
}

func newDoor(s *Server, p *vmmc.Process, id uint32, policy vmmc.Policy) (d *door, err error) {
	d = &door{server: s, proc: p, knocking: make(chan vmmc.Peer, maxKnocking), patience: greetPatience}
	d.ctx, d.cancel = context.WithCancel(s.ctx)
	d.export, err = p.Export(make([]byte, vmmc.WordSize), id, policy, d.knocked)
	if err != nil {
		d.cancel()
	}
	return d, err
}

// Close begins the end of the door and of its connections.
func (d *door) Close() error {
	d.cancel()
	return nil
}

// remove takes the export back.
func (d *door) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return d.export.Unexport(ctx)
}

// knocked is the handler of the door's notifications.
func (d *door) knocked(n vmmc.Notification) {
	select {
	case d.knocking <- n.From:
	default:
		d.server.stats.ConnsRefused.Add(1)
	}
}

// accept begins connections until the end.
func (d *door) accept(context.Context) {
	defer d.remove()
	for {
		select {
		case from := <-d.knocking:
			d.admit(from)
		case <-d.ctx.Done():
			return
		}
	}
}

// closerFunc is a Close.
type closerFunc struct{ close func() }

func (c *closerFunc) Close() error {
	c.close()
	return nil
}

// admit begins a connection, or tells that there are too many.
func (d *door) admit(from vmmc.Peer) {
	s, peer := d.server, fmt.Sprintf("node %v", from.Node)
	full := !s.gate.Enter(peer)
	leave := func() {
		s.stats.ConnsOpen.Add(-1)
		s.gate.Leave(peer)
	}
	if full {
		s.stats.ConnsRefused.Add(1)
		leave = func() { d.refusing.Add(-1) }
		if d.refusing.Add(1) > maxKnocking {
			leave()
			return
		}
	} else {
		s.stats.ConnsOpen.Add(1)
		s.stats.Conns.Add(1)
	}
	ctx, cancel := context.WithCancel(d.ctx)
	begin := func(context.Context) {
		defer leave()
		defer cancel()
		d.serve(ctx, from, full)
	}
	if s.Start(&closerFunc{cancel}, begin) != nil {
		cancel()
		leave()
	}
}

// serve answers the calls of one client until it has gone.
func (d *door) serve(ctx context.Context, from vmmc.Peer, full bool) {
	m, err := d.greet(ctx, from, full)
	if err != nil {
		if !full {
			d.server.stats.ConnsBroken.Add(1)
		}
		return
	}
	v := newMappedServer(ctx, d.server, m, from)
	m.to.AfterEnd(v.cancel) // a procedure may be running, and nobody waiting for the client
	defer func() {          // also if a procedure ends this goroutine
		v.cancel()
		v.group.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		m.close(ctx)
	}()
	v.count(v.serve())
}

// greet makes the connection with a client that has knocked.
func (d *door) greet(ctx context.Context, from vmmc.Peer, full bool) (m *mapped, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	p := d.proc
	greeting, err := p.Import(ctx, vmmc.Name{Node: from.Node, Process: from.Process, ID: greetingID(p.Self())})
	if err != nil {
		return nil, err
	}
	defer greeting.Unimport(ctx)
	if greeting.Size() != greetingSize {
		return nil, fmt.Errorf("vrpc: a greeting of %d octets, want %d", greeting.Size(), greetingSize)
	}
	if full {
		return nil, errors.Join(errFullServer, p.SendMsg(ctx, endGreeting(new(ringOffer).append(nil, greetingFull)), greeting.Addr()))
	}
	export, mem, err := exportRing(p, ringSize(d.server.cfg.Ring), from)
	if err != nil {
		return nil, err
	}
	own := ringOffer{export.ID(), uint32(len(mem) - ringControl), newRingKey()}
	m = newMapped(p, mem, own.key)
	m.export, m.reads = export, true
	if err = p.SendMsg(ctx, endGreeting(own.append(nil, greetingYes)), greeting.Addr()); err == nil {
		err = m.meet(ctx, from)
	}
	if err != nil {
		m.close(context.WithoutCancel(ctx))
		return nil, err
	}
	return m, nil
}

var errFullServer = errors.New("vrpc: too many connections")

// endGreeting appends the words that say that a greeting is there.
func endGreeting(buf []byte) []byte { return binary.BigEndian.AppendUint64(buf, 1<<32) }

// meet waits for a client's first record and imports its ring.
func (m *mapped) meet(ctx context.Context, from vmmc.Peer) error {
	if err := m.proc.Await(ctx, m.in.ready); err != nil {
		return err
	}
	rec, ticket, ok, err := m.receive()
	if err != nil || !ok || len(rec.payload) != setupSize {
		return errors.Join(err, errors.New("vrpc: the first record of a connection over VMMC offers no ring"))
	}
	offer, _, err := parseOffer(rec.payload)
	if err != nil {
		return err
	}
	m.free(ticket)
	to, err := offer.accept(ctx, m.proc, from)
	if err == nil {
		m.connect(to, offer.key)
	}
	return err
}
