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

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// copiedMax is how long a record may be that is sent by a call that copies it.
const copiedMax = vmmc.DefaultShort

// mapped is one side of a connection over VMMC: a ring of its own that the other side
// writes to, and the other side's.
type mapped struct {
	proc   *vmmc.Process
	export *vmmc.Export
	mem    []byte       // exported
	to     *vmmc.Import // the other side's
	base   vmmc.ProxyAddr

	reading sync.Mutex
	in      *ringReader
	held    []heldRecord // taken, and not yet freed, from first on
	first   uint64       // number of held[0]
	freed   atomic.Uint32
	told    atomic.Uint32 // what the other side knows of it
	// reads says that the other side takes records also while it waits for room for its own: a
	// client does. A server does not, and hears of what was freed only by its control word.
	reads   bool
	partial []byte // pieces of a message before the last

	heard   atomic.Uint32 // what the other side says, in records, that it has freed
	starved atomic.Bool   // who writes waits for that
	writing chan struct{} // holds one token, for who writes
	out     ringWriter
	pieces  [4]parcel // of a message before the last, in turn
	turn    int
	telling sync.Mutex
	tell    [4]byte
}

// heldRecord is a record whose memory may be in use.
type heldRecord struct {
	count uint32
	done  bool
}

// newMapped returns a side whose ring is mem. It can send when connect has been called.
func newMapped(p *vmmc.Process, mem []byte, key ringKey) *mapped {
	return &mapped{proc: p, mem: mem, in: newRingReader(mem, key), writing: make(chan struct{}, 1)}
}

// connect gives the side the other one's ring.
func (m *mapped) connect(to *vmmc.Import, key ringKey) {
	m.to, m.base = to, to.Addr()
	m.out = newRingWriter(to.Size()-ringControl, key)
}

// receive takes a record, if there is one. It is held until free.
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

// free gives the memory of a record back: when those before it are free, too, the other
// side may use it again. The reading lock is held.
func (m *mapped) free(ticket uint64) {
	m.held[ticket-m.first].done = true
	n := 0
	for n < len(m.held) && m.held[n].done {
		m.freed.Store(m.held[n].count)
		n++
	}
	m.first += uint64(n)
	m.held = m.held[:copy(m.held, m.held[n:])]
}

// owed reports whether the other side is to be told of what was freed, though nothing else
// is sent to it.
func (m *mapped) owed() bool {
	return int(m.freed.Load()-m.told.Load()) > ackShare(len(m.in.data))
}

// acknowledge tells the other side what was freed, if much was.
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

// credits returns what the other side says that it has freed: by itself, and in records.
func (m *mapped) credits() [2]uint32 {
	return [2]uint32{be(atomic.LoadUint32(vmmc.Word(m.mem, 0))), m.heard.Load()}
}

// piece takes a part of a message: it returns the message when it is whole. What is in one
// piece stays in the ring, and ticket says which record it is; else it has been copied.
func (m *mapped) piece(rec ringRecord, ticket uint64, max int) (msg []byte, inRing, whole bool, err error) {
	if have := len(m.partial); have+len(rec.payload) > max {
		return nil, false, false, fmt.Errorf("%w: a message of %d octets and more, %d are allowed", errTooLarge, have+len(rec.payload), max)
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

// tellNow returns what was freed, which the other side is told by what is being sent.
func (m *mapped) tellNow() uint32 {
	freed := m.freed.Load()
	if m.reads {
		m.told.Store(freed)
	}
	return freed
}

// close ends the side: nothing lands in its ring any more, and the other side hears of it.
func (m *mapped) close(ctx context.Context) {
	m.export.Unexport(ctx)
	if m.to != nil {
		m.to.Unimport(ctx)
	}
}

// mappedAddr is where a server is over VMMC, as a net.Addr.
type mappedAddr vmmc.Name

func (a mappedAddr) Network() string { return "vmmc" }

func (a mappedAddr) String() string { return fmt.Sprintf("%v/%d/%d", a.Node, a.Process, a.ID) }

// VMMCAddr returns where a server is as text: the universal address of netid "vmmc", as
// rpcbind has it: "02:00:00:00:00:01/7/100", node, process and export.
func VMMCAddr(name vmmc.Name) net.Addr { return mappedAddr(name) }

// ParseVMMC returns what an address of VMMC names.
func ParseVMMC(addr string) (name vmmc.Name, err error) {
	parts := strings.Split(addr, "/")
	bad := fmt.Errorf("vrpc: %.60q is no address of VMMC: it must be node/process/export, for example 02:00:00:00:00:01/7/100", addr)
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
	return vmmc.Name{Node: vmmc.Node(mac), Process: uint32(process), ID: uint32(id)}, nil
}

// programWord is the name by which servers of a program are found.
func programWord(prog, vers uint32) string { return fmt.Sprintf("vrpc/%d/%d", prog, vers) }

// parcel is a send with memory for what it names.
type parcel struct {
	vmmc.Send
	parts [][]byte
	tail  []byte
}

// waitSent waits until what was posted does not need its memory any more.
func (q *parcel) waitSent(ctx context.Context, p *vmmc.Process) error {
	if q.Status() != vmmc.StatusPending {
		return nil
	}
	return p.WaitSend(ctx, &q.Send)
}

// sending is how a message goes out.
type sending struct {
	post  *parcel
	wait  func()       // if not nil, is called when the message has no room
	pause func() bool  // if not nil, while it waits for that: reports whether to call look
	look  func() error // its error ends the wait
	begun bool         // set when a part was sent: without the rest the connection is of no use
}

// send sends the message that buf has behind head bytes, which are not looked at, with what
// refs say in between. It returns buf with the trailer; if there is no error its memory, and
// that of refs, is in use until s.post has ended, and if there is one, for ever. The token is
// held.
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

// split appends the first n bytes of parts, which have more, to first, and returns the rest, in
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

// postRecord sends a record asynchronously. Records end in the order in which they were posted.
func (m *mapped) postRecord(ctx context.Context, q *parcel, record [][]byte, to vmmc.ProxyAddr) error {
	q.Src, q.Gather, q.Dst = nil, record, to
	if err := m.proc.Post(&q.Send); !errors.Is(err, vmmc.ErrFull) {
		return err
	}
	return m.proc.SendGather(context.WithoutCancel(ctx), record, to, false) // nor can a post be given up
}

// errSilent: the other side sends nothing, or takes nothing, for too long.
var errSilent = errors.New("vrpc: nothing came in time")

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

// awaitCredit waits until the other side has freed something.
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
