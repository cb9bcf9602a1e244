package vrpc

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// streamServer answers the calls of one connection.
type streamServer struct {
	server *Server
	conn   net.Conn
	peer   string // for the server's gate
	in     *recordReader
	reads  *streamWorker // whose call is being read
	limit  int           // of a fragment

	idle    chan *streamWorker // those that have nothing to do
	group   sync.WaitGroup
	writing sync.Mutex
}

// streamWorker carries out one call at a time.
type streamWorker struct {
	session    *Session
	msg, reply []byte // both behind headroom

	msgCost, replyCost int64 // of these, as the server's gate has counted
}

// serveStream answers the calls of a connection until it ends.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, key string) {
	ctx, cancel := context.WithCancel(ctx)
	v := &streamServer{
		server: s, conn: conn, peer: key, in: newRecordReader(conn, s.cfg.MaxMessage),
		limit: fragmentLimit(s.cfg.MaxFragment),
		idle:  make(chan *streamWorker, s.cfg.Parallel),
	}
	v.in.room = func(size int) bool { return v.pay(&v.reads.msgCost, size) }
	peer := streamPeer(conn)
	all := make([]*streamWorker, s.cfg.Parallel)
	for i := range all {
		all[i] = &streamWorker{session: s.NewSession(ctx, peer, s.cfg.MaxMessage)}
		v.idle <- all[i]
	}
	defer func() { // also if a procedure ends this goroutine
		conn.Close()
		cancel()
		v.group.Wait()
		for _, w := range all {
			v.drop(w)
		}
	}()
	v.count(v.serve())
}

// serve reads calls until the first error.
func (v *streamServer) serve() error {
	for {
		w := <-v.idle
		if err := v.next(w); err != nil {
			return err
		}
		if v.server.cfg.Parallel == 1 {
			if err := v.answer(w); err != nil {
				return err
			}
			v.idle <- w
			continue
		}
		v.group.Go(func() { v.answerAside(w) })
	}
}

// next waits for a call and reads it, each in its time.
func (v *streamServer) next(w *streamWorker) (err error) {
	if !v.in.buffered() {
		if v.in.in.Buffered() == 0 {
			if err := v.await(w); err != nil {
				return err
			}
		}
		v.conn.SetReadDeadline(after(v.server.cfg.RecordTimeout))
	}
	v.reads = w
	if w.msg, err = v.in.read(w.msg); err == nil && !v.pay(&w.msgCost, cap(w.msg)) { // which may be less than before
		err = errNoMemory
	}
	return err
}

// keepTime is how long a connection that has nothing to do keeps the memory of a long call or reply.
const keepTime = time.Second

// await waits for the first byte of a call.
func (v *streamServer) await(w *streamWorker) error {
	idle := v.server.cfg.IdleTimeout
	if w.msgCost+w.replyCost > 0 && (idle < 0 || idle > keepTime) {
		v.conn.SetReadDeadline(after(keepTime))
		if _, err := v.in.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		v.drop(w)
		if idle > 0 {
			idle -= keepTime
		}
	}
	v.conn.SetReadDeadline(after(idle))
	_, err := v.in.in.Peek(1)
	return err
}

// pay counts the memory of a call or a reply, as far as it is long, in place of *cost, which was
// counted before. It returns false if it is too much.
func (v *streamServer) pay(cost *int64, size int) bool {
	if size <= keepBuffer {
		size = 0
	}
	switch more := int64(size) - *cost; {
	case more > 0 && !v.server.gate.Take(v.peer, more):
		return false
	case more < 0:
		v.server.gate.Give(v.peer, -more)
	}
	*cost = int64(size)
	return true
}

// drop drops the memory of a worker.
func (v *streamServer) drop(w *streamWorker) {
	w.msg, w.reply = nil, nil
	v.pay(&w.msgCost, 0)
	v.pay(&w.replyCost, 0)
}

// after returns the time in d from now, or none if d is negative.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// answer carries out the call that w has read, and sends the reply.
func (v *streamServer) answer(w *streamWorker) (err error) {
	if cap(w.reply) > keepBuffer && len(w.reply) <= keepBuffer {
		w.reply = nil
	}
	w.reply, err = w.session.Answer(w.msg[headroom:], append(w.reply[:0], 0, 0, 0, 0))
	if err != nil || len(w.reply) == headroom {
		return err
	}
	if !v.pay(&w.replyCost, cap(w.reply)) {
		return errNoMemory
	}
	v.writing.Lock()
	defer v.writing.Unlock()
	v.conn.SetWriteDeadline(after(v.server.cfg.RecordTimeout))
	return writeRecord(v.conn, w.reply, v.limit)
}

// answerAside is answer on a goroutine of its own. Whatever ends that but a return
// ends the connection, as it does where calls are carried out in turn.
func (v *streamServer) answerAside(w *streamWorker) {
	ended := true
	defer func() {
		if ended {
			v.conn.Close()
		}
		v.idle <- w
	}()
	err := v.answer(w)
	v.count(err)
	ended = err != nil
}

// count counts why a connection ends.
func (v *streamServer) count(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		v.server.stats.ConnsTimedOut.Add(1)
	case errors.Is(err, ErrTooLarge), err == errNoCall, err == errEmptyFragments, err == errNoMemory:
		v.server.stats.ConnsBroken.Add(1)
	}
}
