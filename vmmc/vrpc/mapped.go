package vrpc

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

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
