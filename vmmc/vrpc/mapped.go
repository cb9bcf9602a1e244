package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// copiedMax is the longest record, in bytes, that is sent by a call that copies it.
const copiedMax = vmmc.DefaultShort

// mapped is one side of a connection over VMMC: its own ring, which the other side writes to, and
// the other side's ring.
type mapped struct {
	proc   *vmmc.Process
	export *vmmc.Export
	mem    []byte       // this side's exported ring
	to     *vmmc.Import // the other side's ring
	base   vmmc.ProxyAddr

	reading sync.Mutex
	in      *ringReader
	held    []heldRecord // records taken and not freed, from first on
	first   uint64       // number of held[0]
	freed   atomic.Uint32
	told    atomic.Uint32 // freed bytes that the other side knows of
	// reads means that the other side receives records even while it waits for room for its own, as
	// a client does. A server does not, and learns of freed memory only from its control word.
	reads   bool
	partial []byte // earlier pieces of a message
	closed  bool   // mem is freed as soon as no record is held

	heard   atomic.Uint32 // freed bytes that the other side reports in its records
	starved atomic.Bool   // the writer waits for that
	writing chan struct{} // holds one token, for the writer
	out     ringWriter
	pieces  [4]parcel // of the earlier pieces of a message, in turn
	turn    int
	telling sync.Mutex
	tell    [4]byte
}

// heldRecord is a record whose memory may be in use.
type heldRecord struct {
	count uint32
	done  bool
}

// newMapped returns a side whose ring is mem. It can send after connect.
func newMapped(p *vmmc.Process, mem []byte, key ringKey) *mapped {
	return &mapped{proc: p, mem: mem, in: newRingReader(mem, key), writing: make(chan struct{}, 1)}
}

// connect sets the other side's ring.
func (m *mapped) connect(to *vmmc.Import, key ringKey) {
	m.to, m.base = to, to.Addr()
	m.out = newRingWriter(to.Size()-ringControl, key)
}

// receive takes the next record if there is one. It is held until free.
func (m *mapped) receive() (rec ringRecord, ticket uint64, ok bool, err error) {
	rec, ok, err = m.in.next()
	if ok {
		m.heard.Store(rec.freed)
		if m.starved.Load() {
			m.proc.Wake()
		}
		ticket = m.first + uint64(len(m.held))
		m.held = append(m.held, heldRecord{count: rec.count})
	}
	return rec, ticket, ok, err
}

// free frees the memory of a record. The other side may reuse it when all earlier records are free,
// too. The caller must hold the reading lock.
func (m *mapped) free(ticket uint64) {
	m.held[ticket-m.first].done = true
	n := 0
	for n < len(m.held) && m.held[n].done {
		m.freed.Store(m.held[n].count)
		n++
	}
	m.first += uint64(n)
	m.held = m.held[:copy(m.held, m.held[n:])]
	m.freeMemory()
}

// freeMemory frees the ring after close, unless a record is held. The caller must hold the reading
// lock.
func (m *mapped) freeMemory() {
	if m.closed && len(m.held) == 0 && m.mem != nil {
		m.proc.FreeMem(m.mem)
		m.mem = nil
	}
}

// owed reports whether the other side must be notified of freed memory although no record is sent
// to it.
func (m *mapped) owed() bool {
	return int(m.freed.Load()-m.told.Load()) > ackShare(len(m.in.data))
}

// acknowledge notifies the other side of freed memory, if there is much.
func (m *mapped) acknowledge(ctx context.Context) error {
	if !m.owed() {
		return nil
	}
	m.telling.Lock()
	defer m.telling.Unlock()
	freed := m.freed.Load()
	m.told.Store(freed)
	binary.BigEndian.PutUint32(m.tell[:], freed)
	return m.proc.SendMsg(ctx, m.tell[:], m.base)
}

// credits returns the freed bytes that the other side reports: in its control word, and in records.
func (m *mapped) credits() [2]uint32 {
	return [2]uint32{be(atomic.LoadUint32(vmmc.Word(m.mem, 0))), m.heard.Load()}
}

// piece adds a piece of a message, and returns the message when it is complete. A message in one
// piece stays in the ring, in the record with this ticket. Other messages are copied.
func (m *mapped) piece(rec ringRecord, ticket uint64, max int) (msg []byte, inRing, whole bool, err error) {
	if have := len(m.partial); have+len(rec.payload) > max {
		return nil, false, false, fmt.Errorf("%w: message of at least %d bytes: the limit is %d", errTooLarge, have+len(rec.payload), max)
	}
	if rec.last && len(m.partial) == 0 {
		return rec.payload, true, true, nil
	}
	if !rec.last && len(rec.payload) == 0 {
		return nil, false, false, errEmptyFragments
	}
	m.partial = append(m.partial, rec.payload...)
	m.free(ticket)
	if !rec.last {
		return nil, false, false, nil
	}
	msg, m.partial = m.partial, m.partial[:0]
	return msg, false, true, nil
}

// tellNow returns the freed bytes, which the record being sent reports to the other side.
func (m *mapped) tellNow() uint32 {
	freed := m.freed.Load()
	if m.reads {
		m.told.Store(freed)
	}
	return freed
}

// close ends the side: later writes to its ring fail, and the other side is notified. No goroutine
// may receive or send any more; held records stay valid until they are freed.
func (m *mapped) close(ctx context.Context) {
	m.export.Unexport(ctx)
	if m.to != nil {
		m.to.Unimport(ctx)
	}
	m.reading.Lock()
	defer m.reading.Unlock()
	m.closed = true
	m.freeMemory()
}

// mappedAddr is the address of a server over VMMC, as a net.Addr.
type mappedAddr vmmc.Name

func (a mappedAddr) Network() string { return "vmmc" }

func (a mappedAddr) String() string { return fmt.Sprintf("%v/%d/%d", a.Node, a.Process, a.ID) }

// VMMCAddr returns the address of a server as text: the universal address of netid "vmmc" in
// rpcbind. For example "02:00:00:00:00:01/7/100" is node, process and export.
func VMMCAddr(name vmmc.Name) net.Addr { return mappedAddr(name) }

// ParseVMMC parses an address of VMMC.
func ParseVMMC(addr string) (name vmmc.Name, err error) {
	parts := strings.Split(addr, "/")
	bad := fmt.Errorf("vrpc: %.60q is not an address of VMMC (want node/process/export, for example 02:00:00:00:00:01/7/100)", addr)
	if len(parts) != 3 {
		return name, bad
	}
	mac, err := net.ParseMAC(parts[0])
	if err != nil || len(mac) != len(name.Node) {
		return name, bad
	}
	process, err1 := strconv.ParseUint(parts[1], 10, 32)
	id, err2 := strconv.ParseUint(parts[2], 10, 32)
	if err1 != nil || err2 != nil {
		return name, bad
	}
	return vmmc.Name{Node: ethertype.MAC(mac), Process: uint32(process), ID: uint32(id)}, nil
}

// programWord returns the name under which servers of a program are found.
func programWord(prog, vers uint32) string { return fmt.Sprintf("vrpc/%d/%d", prog, vers) }

// parcel is a send, with memory for its pieces.
type parcel struct {
	vmmc.Send
	parts [][]byte
	tail  []byte
}

// waitSent waits until a posted send no longer needs its memory.
func (q *parcel) waitSent(ctx context.Context, p *vmmc.Process) error {
	if q.Status() != vmmc.StatusPending {
		return nil
	}
	return p.WaitSend(ctx, &q.Send)
}

// sending controls the sending of a message.
type sending struct {
	post  *parcel
	wait  func()       // if not nil, called when the message has no room
	pause func() bool  // if not nil, called while it waits for room; reports whether to call look
	look  func() error // an error ends the wait
	begun bool         // a part was sent: without the rest the connection is unusable
}

// send sends the message in buf after the first head bytes, which it ignores, with the data of refs
// in between. It returns buf with the trailer. If it returns nil, buf and refs are in use until
// s.post has ended; after an error they are in use for ever. The caller must hold the token.
func (m *mapped) send(ctx context.Context, buf []byte, head int, refs []xdr.Ref, s *sending) ([]byte, error) {
	n := len(buf) - head
	parts := s.post.parts[:0]
	for _, r := range refs {
		parts = append(parts, buf[head:r.At], r.Data)
		head = r.At
		n += len(r.Data)
	}
	parts = append(parts, buf[head:])
	s.post.parts = parts
	whole := true
	for most := pieceMax(m.out.size); n > most; n -= most {
		var err error
		if parts, err = m.sendPiece(ctx, parts, most, s); err != nil {
			return buf, err
		}
		whole = false
	}
	if err := m.waitRoom(ctx, n, s); err != nil {
		return buf, err
	}
	s.begun = true
	last := &parts[len(parts)-1]
	begin := len(buf) - len(*last)
	offset, buf := m.out.put(buf, n, true, m.tellNow())
	*last = buf[begin:]
	to := m.base + vmmc.ProxyAddr(offset)
	if whole && len(parts) == 1 && len(parts[0]) <= copiedMax {
		return buf, m.proc.SendMsg(ctx, parts[0], to)
	}
	return buf, m.postRecord(ctx, s.post, parts, to)
}

// sendPiece sends the first n bytes of parts as a piece of a message, and returns the rest.
func (m *mapped) sendPiece(ctx context.Context, parts [][]byte, n int, s *sending) (rest [][]byte, err error) {
	q := &m.pieces[m.turn]
	m.turn = (m.turn + 1) % len(m.pieces)
	if err := q.waitSent(ctx, m.proc); err != nil {
		return nil, err
	}
	if err := m.waitRoom(ctx, n, s); err != nil {
		return nil, err
	}
	s.begun = true
	q.parts, rest = split(q.parts[:0], parts, n)
	offset, tail := m.out.put(q.tail[:0], n, false, m.tellNow())
	q.tail, q.parts = tail, append(q.parts, tail)
	return rest, m.postRecord(ctx, q, q.parts, m.base+vmmc.ProxyAddr(offset))
}

// split moves the first n bytes of parts, which must have more, to first, and returns the rest in
// the memory of parts.
func split(first, parts [][]byte, n int) (_, rest [][]byte) {
	for n >= len(parts[0]) {
		first, n = append(first, parts[0]), n-len(parts[0])
		parts = parts[1:]
	}
	first = append(first, parts[0][:n])
	parts[0] = parts[0][n:]
	return first, parts
}

// postRecord sends a record asynchronously. Records complete in the order in which they were
// posted.
func (m *mapped) postRecord(ctx context.Context, q *parcel, record [][]byte, to vmmc.ProxyAddr) error {
	q.Src, q.Gather, q.Dst = nil, record, to
	if err := m.proc.Post(&q.Send); !errors.Is(err, vmmc.ErrFull) {
		return err
	}
	return m.proc.SendGather(context.WithoutCancel(ctx), record, to, false) // a post cannot be cancelled either
}

// errSilent: the other side has sent or received nothing for too long.
var errSilent = errors.New("vrpc: nothing arrived in time")

// waitRoom waits until a piece of n bytes has room.
func (m *mapped) waitRoom(ctx context.Context, n int, s *sending) error {
	for waiting := false; ; waiting = true {
		said := m.credits()
		if err := m.out.credit(said); err != nil {
			return err
		}
		if m.out.room(n) {
			return nil
		}
		if !waiting && s.wait != nil {
			s.wait()
		}
		if err := m.awaitCredit(ctx, said, s); err != nil {
			return err
		}
	}
}

// awaitCredit waits until the other side has freed memory.
func (m *mapped) awaitCredit(ctx context.Context, said [2]uint32, s *sending) error {
	m.starved.Store(true)
	err := m.to.Await(ctx, func() bool {
		return m.credits() != said || s.pause != nil && s.pause()
	})
	m.starved.Store(false)
	if err == nil && s.look != nil {
		err = s.look()
	}
	return err
}
