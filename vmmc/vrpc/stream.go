package vrpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// streamServer serves the calls of one connection.
type streamServer struct {
	server *Server
	conn   net.Conn
	peer   string // identity for the server's gate
	in     *recordReader
	reads  *streamWorker // the one whose call is being read
	limit  int           // longest fragment

	idle    chan *streamWorker // workers without a call
	group   sync.WaitGroup
	writing sync.Mutex
}

// streamWorker serves one call at a time.
type streamWorker struct {
	session    *Session
	msg, reply []byte // both after headroom

	msgCost, replyCost int64 // their sizes as counted by the server's gate
}

// serveStream serves the calls of a connection until it ends.
func (s *Server) serveStream(ctx context.Context, conn net.Conn, key string, peer Peer) {
	ctx, cancel := context.WithCancel(ctx)
	v := &streamServer{
		server: s, conn: conn, peer: key, in: newRecordReader(conn, s.cfg.MaxMessage),
		limit: fragmentLimit(s.cfg.MaxFragment),
		idle:  make(chan *streamWorker, s.cfg.Parallel),
	}
	v.in.room = func(size int) bool { return v.pay(&v.reads.msgCost, size) }
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

// next waits for a call and reads it, each within its time limit.
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
	if w.msg, err = v.in.read(w.msg); err == nil && !v.pay(&w.msgCost, cap(w.msg)) { // may be less than before
		err = errNoMemory
	}
	return err
}

// keepTime is how long an idle connection keeps the memory of a long call or reply.
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

// pay counts the memory of a long call or reply, instead of the previous *cost. It returns false if
// it exceeds the limit.
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

// drop releases the memory of a worker.
func (v *streamServer) drop(w *streamWorker) {
	w.msg, w.reply = nil, nil
	v.pay(&w.msgCost, 0)
	v.pay(&w.replyCost, 0)
}

// after returns the time d from now, or the zero time if d is negative.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// answer runs the call that w has read, and sends the reply.
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

// answerAside is answer on its own goroutine. If that ends without a return, the connection ends,
// as it does when calls run in sequence.
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

// count counts the cause of a connection's end.
func (v *streamServer) count(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		v.server.stats.ConnsTimedOut.Add(1)
	case errors.Is(err, errTooLarge), err == errNoCall, err == errEmptyFragments, err == errNoMemory:
		v.server.stats.ConnsBroken.Add(1)
	}
}

// Record marking (RFC 5531 section 11): on a stream a message is one or more fragments. A word
// before each fragment has its length, and in the highest bit whether it is the last.
const (
	lastFragment = 1 << 31
	maxFragment  = lastFragment - 1
)

const (
	// maxEmptyFragments is the maximum number of empty fragments in one record. The RFC allows
	// empty fragments, and no other limit bounds their number.
	maxEmptyFragments = 64
	// streamBuffer is the maximum number of bytes that one read takes from a stream.
	streamBuffer = 4096
	// keepBuffer is the largest memory of a record that is kept for the next one, after one that
	// needed less.
	keepBuffer = 64 << 10
)

var errNoMemory = errors.New("vrpc: the calls and replies of this peer, or of all peers, need too much memory (ServerConfig.MaxMemory)")

var errEmptyFragments = errors.New("vrpc: too many empty fragments in one record")

// recordReader reads records from a stream.
type recordReader struct {
	in   *bufio.Reader
	max  int // bytes of a record
	mark [4]byte
	// room, if not nil, reports whether the memory of a record may have that many bytes.
	room func(size int) bool
}

func newRecordReader(r io.Reader, max int) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(r, streamBuffer), max: max}
}

// buffered reports whether the next record has arrived completely, in one fragment.
func (r *recordReader) buffered() bool {
	n := r.in.Buffered()
	if n < 4 {
		return false
	}
	mark, _ := r.in.Peek(4) // they are there
	word := binary.BigEndian.Uint32(mark)
	return word&lastFragment != 0 && int(word&^lastFragment) <= n-4
}

// read reads a record into the memory of rec, or into more if that is too small. It allocates
// memory only for bytes that have arrived, whatever the length says. The result begins with
// headroom, which the caller may use. It returns errTooLarge if the record is too long.
func (r *recordReader) read(rec []byte) ([]byte, error) {
	if cap(rec) > keepBuffer && len(rec) <= keepBuffer {
		rec = nil
	}
	rec = append(rec[:0], 0, 0, 0, 0)
	for empty := 0; ; {
		if _, err := io.ReadFull(r.in, r.mark[:]); err != nil {
			return rec, err
		}
		word := binary.BigEndian.Uint32(r.mark[:])
		n := int(word &^ lastFragment)
		if n > r.max-(len(rec)-headroom) {
			return rec, fmt.Errorf("%w: record of at least %d bytes: the limit is %d", errTooLarge, len(rec)-headroom+n, r.max)
		}
		var err error
		if rec, err = r.fragment(rec, n); err != nil {
			return rec, err
		}
		if word&lastFragment != 0 {
			return rec, nil
		}
		if n == 0 {
			if empty++; empty > maxEmptyFragments {
				return rec, errEmptyFragments
			}
		}
	}
}

// fragment appends n bytes of the stream to rec. It at most doubles the memory before the bytes in
// it have arrived.
func (r *recordReader) fragment(rec []byte, n int) ([]byte, error) {
	for n > 0 {
		if len(rec) == cap(rec) {
			size := max(2*len(rec), len(rec)+min(n, streamBuffer))
			if r.room != nil && !r.room(size) {
				return rec, errNoMemory
			}
			grown := make([]byte, len(rec), size)
			copy(grown, rec)
			rec = grown
		}
		have := len(rec)
		rec = rec[:have+min(n, cap(rec)-have)]
		got, err := io.ReadFull(r.in, rec[have:])
		if err != nil {
			return rec[:have+got], err
		}
		n -= got
	}
	return rec, nil
}

// writeRecord writes buf, which begins with headroom, as one record in fragments of up to limit
// bytes, with one Write each. It leaves the message unchanged.
func writeRecord(w io.Writer, buf []byte, limit int) error {
	for {
		n := len(buf) - headroom
		var last uint32 = lastFragment
		if n > limit {
			n, last = limit, 0
		}
		before := [headroom]byte(buf)
		binary.BigEndian.PutUint32(buf, last|uint32(n))
		_, err := w.Write(buf[:headroom+n])
		copy(buf, before[:])
		if err != nil || last != 0 {
			return err
		}
		buf = buf[n:] // the bytes that were written make room for the next mark
	}
}

// fragmentLimit returns the longest fragment for an option that may be 0.
func fragmentLimit(option int) int {
	if option <= 0 || option > maxFragment {
		return maxFragment
	}
	return option
}
