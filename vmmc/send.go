package vmmc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Status is the state of a Send. Its completion word receives it, too.
type Status uint32

// The states of a Send.
const (
	StatusIdle    Status = iota // never posted
	StatusPending               // Src and the memory that it names belong to the process
	StatusDone                  // the data are in the exporter's memory
	StatusFailed                // Err returns the cause
)

// Send is an asynchronous send. The caller fills the first group of fields and posts it. Until it
// is done, the Send and its memory belong to the process. Then it can be posted again. The zero
// Send is ready for use.
type Send struct {
	// Src is the data to send. Gather, if not nil, is sent instead, piece by piece.
	Src    []byte
	Gather [][]byte
	// Dst is the destination. All of it must lie in one import.
	Dst ProxyAddr
	// Notify makes the exporter's handler run after the data have arrived. A Send without data only
	// notifies.
	Notify bool
	// Word, if not nil, is set to the Status with an atomic store when the send has ended, so that
	// a program can wait for it like any other word of its memory.
	Word *uint32

	status atomic.Uint32
	left   int // writes; guarded by the process's lock
	err    error
	one    [1][]byte
}

// Status returns the state of the send. It does not drive the network: Process.Poll does.
func (s *Send) Status() Status { return Status(s.status.Load()) }

// Err returns why the send has failed. Call it only if Status is StatusFailed.
func (s *Send) Err() error { return s.err }

// finish ends the send. The caller must hold the lock.
func (s *Send) finish() {
	status := StatusDone
	if s.err != nil {
		status = StatusFailed
	}
	word := s.Word
	s.status.Store(uint32(status))
	if word != nil {
		atomic.StoreUint32(word, uint32(status))
	}
}

// SendMsg sends src to a proxy address (deliberate update). It returns when src may be used
// again: at once for messages that are copied (Config.Short), otherwise when the data
// is in the exporter's memory. If a copied message cannot be delivered later, the import's
// next send returns the error. If ctx ends first, the message may or may not arrive, and
// src is still read while the import has writes under way.
func (p *Process) SendMsg(ctx context.Context, src []byte, dst ProxyAddr) error {
	return p.sendMsg(ctx, src, dst, false)
}

// SendMsgWithNotify is SendMsg, and then the exporter's handler runs. With an empty src it only
// notifies.
func (p *Process) SendMsgWithNotify(ctx context.Context, src []byte, dst ProxyAddr) error {
	return p.sendMsg(ctx, src, dst, true)
}

func (p *Process) sendMsg(ctx context.Context, src []byte, dst ProxyAddr, notify bool) error {
	if len(src) > p.cfg.Short {
		return p.sendLong(ctx, src, nil, dst, notify)
	}
	p.mu.Lock()
	err := p.sendShort(src, dst, notify)
	if err != errFull {
		p.unlock()
		return err
	}
	defer p.unlock() // a handler may end the goroutine
	for err == errFull {
		if err = p.awaitRoom(ctx, dst); err == nil {
			err = p.sendShort(src, dst, notify)
		}
	}
	return err
}

// errFull makes a synchronous send wait.
var errFull = fmt.Errorf("%w: wait for some", ErrFull)

func (p *Process) sendShort(src []byte, dst ProxyAddr, notify bool) error {
	if p.closed {
		return ErrClosed
	}
	i, at, err := p.proxies.resolve(dst, len(src))
	if err != nil {
		p.refused(err)
		return err
	}
	p.one[0] = src
	err = p.write(provider.Write{Region: i.region, Offset: at, Data: p.one[:], Size: len(src), Copy: true, Notify: notify})
	p.one[0] = nil
	return err
}

// refused counts a send that was refused because of its address.
func (p *Process) refused(err error) {
	p.stats.Refused++
	if errors.Is(err, errPastEnd) {
		p.stats.PastEnd++
	}
}

// write posts one write.
func (p *Process) write(w provider.Write) error {
	p.scratch = w // what an interface's method gets would be allocated
	err := p.via.Post(&p.scratch)
	p.scratch = provider.Write{}
	switch err {
	case nil:
		p.stats.Sends++
		return nil
	case provider.ErrFull:
		return errFull
	}
	return typed(err)
}

// roomWait is a wait for room for another send. It is kept for later ones, so that they allocate
// nothing.
type roomWait struct {
	p     *Process
	dst   ProxyAddr
	began uint32 // the value of Seen when there was no room
	over  func() bool
}

// awaitRoom waits until the caller may try another send.
func (p *Process) awaitRoom(ctx context.Context, dst ProxyAddr) error {
	var w *roomWait
	if last := len(p.rooms) - 1; last >= 0 {
		w, p.rooms = p.rooms[last], p.rooms[:last]
	} else {
		w = &roomWait{p: p}
		w.over = w.isOver
	}
	w.dst, w.began = dst, p.via.Seen()
	err := p.await(ctx, w.over)
	p.rooms = append(p.rooms, w)
	return err
}

// isOver reports whether an event has occurred since there was no room.
func (w *roomWait) isOver() bool {
	i, _, err := w.p.proxies.resolve(w.dst, 0)
	return err != nil || i.region.Busy < w.p.cfg.MaxSends && w.p.via.Seen() != w.began
}

// SendGather is SendMsg for several pieces of memory that form one message, optionally with a
// notification.
func (p *Process) SendGather(ctx context.Context, src [][]byte, dst ProxyAddr, notify bool) error {
	if src == nil {
		src = [][]byte{}
	}
	return p.sendLong(ctx, nil, src, dst, notify)
}

// sendLong sends src, or the pieces in gather, and waits until the data has arrived.
func (p *Process) sendLong(ctx context.Context, src []byte, pieces [][]byte, dst ProxyAddr, notify bool) error {
	p.mu.Lock()
	defer p.unlock()
	s := p.spare
	if s == nil {
		s = new(Send)
	}
	p.spare = nil
	s.Src, s.Gather, s.Dst, s.Notify = src, pieces, dst, notify
	err := p.post(s, false)
	for err == errFull {
		if err = p.awaitRoom(ctx, dst); err == nil {
			err = p.post(s, false)
		}
	}
	if err != nil {
		return err
	}
	if err := p.await(ctx, func() bool { return s.left == 0 }); err != nil {
		return err
	}
	err = s.err
	s.Src, s.Gather, s.one[0] = nil, nil, nil
	p.spare = s
	return err
}

// Post posts an asynchronous send. It never waits. It only copies a short message; the engine sends
// the data of a longer one while a goroutine waits or polls, or by itself. If Post returns an
// error, s was not posted: ErrFull if too many sends are in flight, ErrProxy for an invalid
// address, or the error that ended the import (ErrUnexported, ErrPeer, or given up).
func (p *Process) Post(s *Send) error {
	p.mu.Lock()
	defer p.unlock()
	return p.post(s, true)
}

func (p *Process) post(s *Send, later bool) error {
	if p.closed {
		return ErrClosed
	}
	if s.Status() == StatusPending {
		return ErrBusy
	}
	data := s.Gather
	if data == nil {
		s.one[0] = s.Src
		data = s.one[:]
	}
	n := 0
	for _, b := range data {
		n += len(b)
	}
	i, at, err := p.proxies.resolve(s.Dst, n)
	if err != nil {
		p.refused(err)
		return err
	}
	s.err = nil
	s.status.Store(uint32(StatusPending))
	if err := p.postParts(s, i.region, at, data, n, later); err != nil {
		s.status.Store(uint32(StatusIdle))
		return err
	}
	return nil
}

// postParts posts the writes of a message. An error means that no write was posted.
func (p *Process) postParts(s *Send, r *provider.Region, at uint64, data [][]byte, n int, later bool) error {
	if n <= max(p.cfg.Short, 0) {
		s.left = 1
		return p.write(provider.Write{Region: r, Offset: at, Data: data, Size: n, Copy: true, Notify: s.Notify, Token: s})
	}
	all := pieces(r.Addr+at, data, n)
	s.left = all
	for k, done := 0, 0; k < all; k++ {
		size := extent(r.Addr+at, data, done, n-done)
		err := p.write(provider.Write{Region: r, Offset: at + uint64(done), Data: data, Skip: done, Size: size,
			Copy: size <= p.cfg.Short, Later: later, Await: !later && k == all-1, More: k > 0, Notify: s.Notify && k == all-1, Token: s})
		if err != nil {
			if k == 0 {
				return err
			}
			for range all - k { // the message has begun, and ends as failed
				(*up)(p).Done(s, err)
			}
			return nil
		}
		done += size
	}
	return nil
}

// maxPieces is the maximum number of pieces of memory that one write gathers, and
// maxWrite its maximum number of bytes. A longer message is sent as several writes, in
// order.
const (
	maxPieces = 15
	maxWrite  = 1 << 29
)

// extent returns how many of the size bytes that follow the first skip bytes of a message to addr go into
// one write. If not all of them do, the write ends at the end of a word of the destination. So no word is
// in two writes, unless the pieces are shorter than a word.
func extent(addr uint64, data [][]byte, skip, size int) (n int) {
	from := addr + uint64(skip)
	used := 0
	for _, b := range data {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		if used == maxPieces || n == size {
			break
		}
		n += min(len(b)-skip, size-n)
		skip = 0
		used++
	}
	if n = min(n, maxWrite); n == size {
		return n
	}
	if cut := int((from + uint64(n)) % orderWord); cut < n {
		n -= cut
	}
	return n
}

const orderWord = 8

// pieces returns the number of writes for a message of n bytes to addr.
func pieces(addr uint64, data [][]byte, n int) (count int) {
	for done := 0; done < n; count++ {
		done += extent(addr, data, done, n-done)
	}
	return count
}

// WaitSend blocks until s has ended and returns its Err, or until ctx ends.
func (p *Process) WaitSend(ctx context.Context, s *Send) error {
	p.mu.Lock()
	defer p.unlock()
	if err := p.await(ctx, func() bool { return s.Status() != StatusPending }); err != nil {
		return err
	}
	return s.err
}
