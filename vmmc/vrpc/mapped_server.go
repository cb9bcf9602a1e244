package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
)

// door is the export that clients over VMMC contact first.
type door struct {
	server *Server
	proc   *vmmc.Process
	export *vmmc.Export
	ctx    context.Context
	cancel context.CancelFunc

	knocking chan vmmc.Peer
	refusing atomic.Int64  // clients that are being refused because there are too many
	patience time.Duration // limit for the handshake with a client
}

// maxKnocking bounds the clients that wait for their handshake, and the clients that are being
// refused at the same time.
const maxKnocking = 64

// greetPatience bounds the setup of a connection.
const greetPatience = 30 * time.Second

// ListenVMMC makes the server serve clients over VMMC that the policy allows, until Close. Clients
// dial the returned name (VMMCAddr converts it to text), or find the programs that are registered
// now by number (DialVMMCProgram). Each client gets a ring of ServerConfig.Ring bytes in the memory
// of p, which the caller closes. Export numbers from 0xe0000000 on are reserved for this package.
func (s *Server) ListenVMMC(p *vmmc.Process, id uint32, policy vmmc.Policy) (vmmc.Name, error) {
	self := p.Self()
	name := vmmc.Name{Node: self.Node, Process: self.Process, ID: id}
	if id >= firstRingID {
		return name, fmt.Errorf("vrpc: export %#x: numbers from %#x on are reserved for rings", id, uint32(firstRingID))
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
	if d.export, err = exportMemory(p, vmmc.WordSize, id, policy, d.knocked); err != nil {
		d.cancel()
	}
	return d, err
}

// exportMemory exports new memory of p (Process.AllocMem). withdraw frees it.
func exportMemory(p *vmmc.Process, size int, id uint32, policy vmmc.Policy, handler vmmc.Handler) (*vmmc.Export, error) {
	mem, err := p.AllocMem(size)
	if err != nil {
		return nil, err
	}
	e, err := p.Export(mem, id, policy, handler)
	if err != nil {
		p.FreeMem(mem)
	}
	return e, err
}

// withdraw ends an export of exportMemory.
func withdraw(ctx context.Context, p *vmmc.Process, e *vmmc.Export) error {
	err := e.Unexport(ctx)
	p.FreeMem(e.Bytes())
	return err
}

// Close starts to close the door and its connections.
func (d *door) Close() error {
	d.cancel()
	return nil
}

// remove ends the export.
func (d *door) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return withdraw(ctx, d.proc, d.export)
}

// knocked is the handler of the door's notifications.
func (d *door) knocked(n vmmc.Notification) {
	select {
	case d.knocking <- n.From:
	default:
		d.server.stats.ConnsRefused.Add(1)
	}
}

// accept starts connections until the end.
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

// closerFunc is an io.Closer that calls a function.
type closerFunc struct{ close func() }

func (c *closerFunc) Close() error {
	c.close()
	return nil
}

// admit starts a connection, or refuses it because there are too many.
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

// serve serves the calls of one client until the client has gone.
func (d *door) serve(ctx context.Context, from vmmc.Peer, full bool) {
	m, err := d.greet(ctx, from, full)
	if err != nil {
		if !full {
			d.server.stats.ConnsBroken.Add(1)
		}
		return
	}
	v := newMappedServer(ctx, d.server, m, from)
	m.to.AfterEnd(v.cancel) // a procedure may be running while no goroutine waits for the client
	defer func() {          // also if a procedure ends this goroutine
		v.cancel()
		v.group.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		m.held = nil // the procedures that used records have returned
		m.close(ctx)
	}()
	v.count(v.serve())
}

// greet sets up the connection with a client that has knocked.
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
		return nil, fmt.Errorf("vrpc: greeting buffer has %d bytes, want %d", greeting.Size(), greetingSize)
	}
	if full {
		return nil, errors.Join(errFullServer, p.SendMsg(ctx, endGreeting(new(ringOffer).append(nil, greetingFull)), greeting.Addr()))
	}
	export, err := exportRing(p, ringSize(d.server.cfg.Ring), from)
	if err != nil {
		return nil, err
	}
	own := ringOffer{export.ID(), uint32(len(export.Bytes()) - ringControl), newRingKey()}
	m = newMapped(p, export.Bytes(), own.key)
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

// endGreeting appends the words that mark a greeting as complete.
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

// mappedServer serves the calls of one client over VMMC.
type mappedServer struct {
	*mapped
	server *Server
	ctx    context.Context
	cancel context.CancelFunc
	idle   chan *mappedWorker
	group  sync.WaitGroup

	alarm  *alarm // bounds the receipt of a call
	unread *alarm // bounds the wait for room for a reply; used by the writer
	// Functions for sending, allocated once.
	crowd    func()
	crowded  func() bool
	patience func() error
}

// mappedWorker serves one call at a time.
type mappedWorker struct {
	session *Session
	call    []byte // copy of the call, if several run concurrently
	reply   []byte
	post    *parcel
}

func newMappedServer(ctx context.Context, s *Server, m *mapped, from vmmc.Peer) *mappedServer {
	v := &mappedServer{mapped: m, server: s, idle: make(chan *mappedWorker, s.cfg.Parallel)}
	v.ctx, v.cancel = context.WithCancel(ctx)
	peer := Peer{Netid: "vmmc", Name: fmt.Sprintf("%v/%d", from.Node, from.Process)}
	for range s.cfg.Parallel {
		w := &mappedWorker{session: s.NewSession(v.ctx, peer, s.cfg.MaxMessage), post: new(parcel)}
		w.session.refers = true
		v.idle <- w
	}
	v.alarm, v.unread = newAlarm(m.proc), newAlarm(m.proc)
	v.crowd = func() { v.unread.set(s.cfg.RecordTimeout) }
	v.crowded = v.unread.over.Load
	v.patience = func() error {
		if v.unread.late() {
			return errSilent
		}
		return nil
	}
	return v
}

// watch makes v notice the end of its context. A wait that may end with a context allocates each
// time; this way there is no allocation.
func (v *mappedServer) watch() (stop func() bool) {
	return context.AfterFunc(v.ctx, v.proc.Wake)
}

func (v *mappedServer) stirred() bool {
	return v.in.ready() || v.alarm.over.Load() || v.ctx.Err() != nil
}

// serve serves calls until the first error.
func (v *mappedServer) serve() error {
	defer v.alarm.stop()
	defer v.watch()()
	stirred := v.stirred // allocated once for all calls
	for {
		w := <-v.idle
		msg, t, err := v.next(stirred)
		if err != nil {
			return err
		}
		if v.server.cfg.Parallel > 1 {
			w.call = append(w.call[:0], msg...)
			v.give(t)
			v.group.Go(func() { v.aside(w) })
			continue
		}
		if err := v.answer(w, msg, t); err != nil {
			return err
		}
		v.idle <- w
	}
}

// taken is the memory of a call.
type taken struct {
	ticket uint64
	inRing bool // it is this record's, otherwise that of reassembled pieces
	given  bool // it is neither
}

// next waits for a call and receives it, each within its time limit.
func (v *mappedServer) next(stirred func() bool) (msg []byte, t taken, err error) {
	v.alarm.set(v.server.cfg.IdleTimeout)
	for begun := false; ; {
		msg, t, some, err := v.look()
		switch {
		case err != nil || msg != nil:
			return msg, t, err
		case some:
			if err := v.acknowledge(v.ctx); err != nil {
				return nil, t, err
			}
			if !begun {
				begun = true
				v.alarm.set(v.server.cfg.RecordTimeout)
			}
		case v.alarm.late():
			return nil, t, errSilent
		default:
			if err := v.to.Await(context.Background(), stirred); err != nil {
				return nil, t, err
			}
			if err := v.ctx.Err(); err != nil {
				return nil, t, err
			}
		}
	}
}

// look takes a record. It returns the call that the record completes, if any, and otherwise whether
// there was a record.
func (v *mappedServer) look() (msg []byte, t taken, some bool, err error) {
	v.reading.Lock()
	defer v.reading.Unlock()
	rec, ticket, ok, err := v.receive()
	if err != nil || !ok {
		return nil, t, false, err
	}
	msg, inRing, _, err := v.piece(rec, ticket, v.server.cfg.MaxMessage)
	return msg, taken{ticket: ticket, inRing: inRing}, true, err
}

// give frees the memory of a call.
func (v *mappedServer) give(t taken) {
	if t.given {
		return
	}
	v.reading.Lock()
	defer v.reading.Unlock()
	if t.inRing {
		v.free(t.ticket)
		if cap(v.partial) > keepBuffer && len(v.partial) == 0 {
			v.partial = nil // calls have been short since a long one
		}
	}
}

// answer runs a call and sends the reply.
func (v *mappedServer) answer(w *mappedWorker, msg []byte, t taken) (err error) {
	if err := w.post.waitSent(context.Background(), v.proc); err != nil {
		return err
	}
	if cap(w.reply) > keepBuffer && len(w.reply) <= keepBuffer {
		w.reply = nil
	}
	defer w.session.sent()
	w.reply, err = w.session.answer(msg, w.reply[:0])
	kept := w.session.keeps(len(msg))
	if !kept {
		v.give(t)
	}
	if err == nil {
		err = v.ctx.Err() // the connection has ended meanwhile
	}
	if err != nil {
		return err
	}
	if len(w.reply) == 0 {
		return v.acknowledge(v.ctx)
	}
	if err := v.reply(w); err != nil || !kept {
		return err
	}
	if err := w.post.waitSent(context.Background(), v.proc); err != nil {
		return err
	}
	v.give(t)
	return v.acknowledge(v.ctx) // the reply could not carry it
}

// reply sends the answer of w.
func (v *mappedServer) reply(w *mappedWorker) (err error) {
	v.writing <- struct{}{}
	defer func() { <-v.writing }()
	s := sending{post: w.post, wait: v.crowd, pause: v.crowded, look: v.patience}
	defer v.unread.stop()
	w.reply, err = v.send(v.ctx, w.reply, 0, w.session.call.enc.Refs(), &s)
	return err
}

// aside is answer on its own goroutine. If that ends without a return, the connection ends, as it
// does when calls run in sequence.
func (v *mappedServer) aside(w *mappedWorker) {
	ended := true
	defer func() {
		if ended {
			v.cancel()
		}
		v.idle <- w
	}()
	err := v.answer(w, w.call, taken{given: true})
	v.count(err)
	ended = err != nil
}

// count counts the cause of a connection's end.
func (v *mappedServer) count(err error) {
	switch {
	case errors.Is(err, errSilent):
		v.server.stats.ConnsTimedOut.Add(1)
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, vmmc.ErrClosed), v.to.Done() != nil: // the client has gone
	default:
		v.server.stats.ConnsBroken.Add(1)
	}
}

// The setup of a connection over VMMC. A server exports a door, which is memory that is never
// written to. A client imports it. The client exports memory for a greeting, under a number that
// both sides can compute and with a policy for the server's process only. Then it sends a
// notification to the door, which identifies the client. The server writes the greeting: the ring
// that it has exported for this client. The client's first record in that ring describes the ring
// for replies.
//
//	greeting    magic, status, export of the ring, its size, its key (2), 1, nothing
//	first call  magic, nothing, export of the ring, its size, its key (2)
//
// All words are in network order.
const (
	mappedMagic  = 0x76525043 // the protocol's version 1
	greetingSize = 32
	setupSize    = 24

	greetingYes  = 0
	greetingFull = 1
)

// Export numbers from here on belong to this package: those of rings and of greetings.
const (
	firstRingID     = 0xe000_0000
	firstGreetingID = 0xf000_0000
)

// greetingID returns the number of the export in which a client waits for the greeting of a
// server's process.
func greetingID(server vmmc.Peer) uint32 {
	h := fnv.New32a()
	h.Write(server.Node[:])
	binary.Write(h, binary.BigEndian, server.Process)
	return firstGreetingID | h.Sum32()>>4
}

// exportRing exports memory for a ring to one process.
func exportRing(p *vmmc.Process, size int, to vmmc.Peer) (*vmmc.Export, error) {
	for {
		id := firstRingID | rand.Uint32()>>4
		e, err := exportMemory(p, ringControl+size, id, vmmc.Policy{Processes: []vmmc.Peer{to}}, nil)
		if !errors.Is(err, vmmc.ErrExists) {
			return e, err
		}
	}
}

// ringOffer describes a side's ring to the other side.
type ringOffer struct {
	id, size uint32
	key      ringKey
}

func (o *ringOffer) append(buf []byte, status uint32) []byte {
	for _, word := range []uint32{mappedMagic, status, o.id, o.size} {
		buf = binary.BigEndian.AppendUint32(buf, word)
	}
	return append(buf, o.key[:]...)
}

// parseOffer is the inverse of append. buf must have at least setupSize bytes.
func parseOffer(buf []byte) (o ringOffer, status uint32, err error) {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(buf[4*i:]) }
	if word(0) != mappedMagic {
		return o, 0, fmt.Errorf("vrpc: the other side uses protocol %#x, this side %#x", word(0), uint32(mappedMagic))
	}
	return ringOffer{word(2), word(3), ringKey(buf[16:24])}, word(1), nil
}

// accept imports the ring that the other side offers, and verifies the description.
func (o *ringOffer) accept(ctx context.Context, p *vmmc.Process, from vmmc.Peer) (*vmmc.Import, error) {
	if size := int(o.size); size != ringSize(size) {
		return nil, fmt.Errorf("vrpc: offered ring has %d bytes (want %d to %d)", o.size, minRing, maxRing)
	}
	i, err := p.Import(ctx, vmmc.Name{Node: from.Node, Process: from.Process, ID: o.id})
	if err != nil {
		return nil, err
	}
	if i.Size() != ringControl+int(o.size) {
		i.Unimport(ctx)
		return nil, fmt.Errorf("vrpc: offered ring has %d bytes, its export %d", o.size, i.Size())
	}
	return i, nil
}

// greetings holds a token for each greeting that a process waits for: only one at a time from each
// server.
var greetings sync.Map // of greetingKey, chan struct{}

type greetingKey struct {
	p  *vmmc.Process
	id uint32
}

func (k greetingKey) lock(ctx context.Context) error {
	for {
		mine := make(chan struct{})
		other, taken := greetings.LoadOrStore(k, mine)
		if !taken {
			return nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k greetingKey) unlock() {
	mine, _ := greetings.LoadAndDelete(k)
	close(mine.(chan struct{}))
}

// knock sets up a client's connection at a door. ring is the size of its own ring.
func knock(ctx context.Context, door *vmmc.Import, p *vmmc.Process, ring int) (m *mapped, err error) {
	server := door.Owner()
	offer, err := greet(ctx, door, p, server)
	if err != nil {
		return nil, err
	}
	export, err := exportRing(p, ring, server)
	if err != nil {
		return nil, err
	}
	own := ringOffer{export.ID(), uint32(ring), newRingKey()}
	m = newMapped(p, export.Bytes(), own.key)
	m.export = export
	to, err := offer.accept(ctx, p, server)
	if err != nil {
		m.close(ctx)
		return nil, err
	}
	m.connect(to, offer.key)
	s := sending{post: new(parcel)}
	if _, err := m.send(ctx, own.append(nil, 0), 0, nil, &s); err != nil {
		m.close(ctx)
		return nil, err
	}
	return m, nil
}

// greet knocks and waits for the greeting.
func greet(ctx context.Context, door *vmmc.Import, p *vmmc.Process, server vmmc.Peer) (o ringOffer, err error) {
	k := greetingKey{p, greetingID(server)}
	if err := k.lock(ctx); err != nil {
		return o, err
	}
	defer k.unlock()
	export, err := exportMemory(p, greetingSize, k.id, vmmc.Policy{Processes: []vmmc.Peer{server}}, nil)
	if err != nil {
		return o, fmt.Errorf("vrpc: export the buffer for the greeting: %w", err)
	}
	defer withdraw(context.WithoutCancel(ctx), p, export)
	greeting := export.Bytes()
	if err := p.SendMsgWithNotify(ctx, nil, door.Addr()); err != nil {
		return o, err
	}
	greeted := vmmc.Word(greeting, greetingSize-2*vmmc.WordSize)
	if err := door.Await(ctx, func() bool { return atomic.LoadUint32(greeted) != 0 }); err != nil {
		return o, err
	}
	o, status, err := parseOffer(greeting)
	if err == nil && status != greetingYes {
		err = errors.New("vrpc: the server has too many connections (ServerConfig.MaxConns)")
	}
	return o, err
}

// alarm bounds the waits of a server in a process of VMMC, one after another. A context for each
// wait would allocate. Methods other than over must be called by one goroutine at a time.
type alarm struct {
	over  atomic.Bool // the time may have passed: the waiting goroutine checks late
	timer *time.Timer
	due   time.Time // zero for no limit
}

// newAlarm returns an alarm that is not set.
func newAlarm(p *vmmc.Process) *alarm {
	a := new(alarm)
	a.timer = time.AfterFunc(time.Hour, func() {
		a.over.Store(true)
		p.Wake()
	})
	a.timer.Stop()
	return a
}

// set sets the limit of the next wait; negative means none.
func (a *alarm) set(d time.Duration) {
	a.over.Store(false)
	if d < 0 {
		a.stop()
		return
	}
	a.due = time.Now().Add(d)
	a.timer.Reset(d)
}

// late reports whether the limit has passed. The timer may have belonged to an earlier wait.
func (a *alarm) late() bool {
	if !a.over.Load() || a.due.IsZero() {
		return false
	}
	if left := time.Until(a.due); left > 0 {
		a.over.Store(false)
		a.timer.Reset(left)
		return false
	}
	return true
}

func (a *alarm) stop() {
	if !a.due.IsZero() {
		a.due = time.Time{}
		a.timer.Stop()
	}
}
