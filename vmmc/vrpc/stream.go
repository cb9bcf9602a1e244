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
	in     *recordReader
	limit  int // of a fragment

	idle    chan *streamWorker // those that have nothing to do
	group   sync.WaitGroup
	writing sync.Mutex
}

// streamWorker carries out one call at a time.
type streamWorker struct {
	session    *Session
	msg, reply []byte // both behind headroom
}

// serveStream answers the calls of a connection until it ends.
func (s *Server) serveStream(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	v := &streamServer{
		server: s, conn: conn, in: newRecordReader(conn, s.cfg.MaxMessage),
		limit: fragmentLimit(s.cfg.MaxFragment),
		idle:  make(chan *streamWorker, s.cfg.Parallel),
	}
	peer := streamPeer(conn)
	for range s.cfg.Parallel {
		v.idle <- &streamWorker{session: s.NewSession(ctx, peer, s.cfg.MaxMessage)}
	}
	defer func() { // also if a procedure ends this goroutine
		conn.Close()
		cancel()
		v.group.Wait()
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
			v.conn.SetReadDeadline(after(v.server.cfg.IdleTimeout))
			if _, err := v.in.in.Peek(1); err != nil {
				return err
			}
		}
		v.conn.SetReadDeadline(after(v.server.cfg.RecordTimeout))
	}
	w.msg, err = v.in.read(w.msg)
	return err
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
		v.server.stats.connsTimedOut.Add(1)
	case errors.Is(err, ErrTooLarge), err == errNoCall, err == errEmptyFragments:
		v.server.stats.connsBroken.Add(1)
	}
}
