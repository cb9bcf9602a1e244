package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/vmmc"
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
	tail    []byte    // of pieces
	gather  [2][]byte // a piece and its tail
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
		return nil, false, false, fmt.Errorf("%w: a message of %d octets and more, %d are allowed", ErrTooLarge, have+len(rec.payload), max)
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

// sending is how a message goes out.
type sending struct {
	post  *vmmc.Send
	pause func() bool   // if not nil, while the message waits for room: reports whether to call look
	look  func() error  // its error ends the wait
	limit time.Duration // if positive, how long the message may wait for room: errSilent
	begun bool          // set when a part was sent: without the rest the connection is of no use
}

// send sends the message that buf has behind head octets, which are not looked at. It returns
// buf with the trailer; if there is no error its memory is in use until s.post has ended, and if
// there is one, for ever. The token is held.
func (m *mapped) send(ctx context.Context, buf []byte, head int, s *sending) ([]byte, error) {
	n := len(buf) - head
	most := pieceMax(m.out.size)
	for at := head; n > most; at, n = at+most, n-most {
		if err := m.waitRoom(ctx, most, s); err != nil {
			return buf, err
		}
		s.begun = true
		offset, tail := m.out.put(m.tail[:0], most, false, m.tellNow())
		m.tail, m.gather = tail, [2][]byte{buf[at : at+most], tail}
		if err := m.proc.SendGather(ctx, m.gather[:], m.base+vmmc.ProxyAddr(offset), false); err != nil {
			return buf, err
		}
	}
	if err := m.waitRoom(ctx, n, s); err != nil {
		return buf, err
	}
	s.begun = true
	begin := len(buf) - n
	offset, buf := m.out.put(buf, n, true, m.tellNow())
	return buf, m.write(ctx, buf[begin:], m.base+vmmc.ProxyAddr(offset), s.post)
}

// write sends a record: asynchronously if it is not copied.
func (m *mapped) write(ctx context.Context, record []byte, to vmmc.ProxyAddr, post *vmmc.Send) error {
	if len(record) > copiedMax {
		post.Src, post.Dst = record, to
		if err := m.proc.Post(post); !errors.Is(err, vmmc.ErrFull) {
			return err
		}
	}
	return m.proc.SendMsg(ctx, record, to)
}

// tellNow returns what was freed, which the other side is told by what is being sent.
func (m *mapped) tellNow() uint32 {
	freed := m.freed.Load()
	if m.reads {
		m.told.Store(freed)
	}
	return freed
}

// errSilent: the other side sends nothing, or takes nothing, for too long.
var errSilent = errors.New("vrpc: nothing came in time")

// waitRoom waits until a piece of n octets has room.
func (m *mapped) waitRoom(ctx context.Context, n int, s *sending) error {
	for waiting := false; ; waiting = true {
		said := m.credits()
		if err := m.out.credit(said); err != nil {
			return err
		}
		if m.out.room(n) {
			return nil
		}
		if !waiting && s.limit > 0 {
			limited, cancel := context.WithTimeoutCause(ctx, s.limit, errSilent)
			defer cancel()
			ctx = limited
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
	switch {
	case err != nil && context.Cause(ctx) == errSilent:
		return errSilent
	case err != nil:
		return err
	case s.look != nil:
		return s.look()
	}
	return nil
}

// settled waits until a send that was posted does not need its memory any more.
func settled(p *vmmc.Process, post *vmmc.Send) error {
	if post.Status() != vmmc.StatusPending {
		return nil
	}
	return p.WaitSend(context.Background(), post)
}

// close ends the side: nothing lands in its ring any more, and the other side hears of it.
func (m *mapped) close(ctx context.Context) {
	m.export.Unexport(ctx)
	if m.to != nil {
		m.to.Unimport(ctx)
	}
}
