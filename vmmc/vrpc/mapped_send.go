package vrpc

import (
	"context"
	"errors"

	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

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
