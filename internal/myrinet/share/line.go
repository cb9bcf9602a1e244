package share

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// maxLine is the maximum length of a message in bytes.
const maxLine = 64 << 10

// Line is one end of the message connection between a program and the process that owns the card. A
// message is a line of JSON, preceded by a digit for the number of its descriptors, because one
// read may return several messages. It is safe for concurrent use, except that only one goroutine
// at a time may call Receive.
type Line struct {
	conn *net.UnixConn
	uid  uint32 // of the other side
	in   []byte
	fds  []int

	mu      sync.Mutex
	out     []parcel
	waiting int // weight of messages from Send that are not yet written
	told    int // weight of unsolicited messages (Tell) that are not yet written
	closed  bool
	stirred chan struct{} // of capacity 1
	done    chan struct{} // closed after the last write
}

type parcel struct {
	line []byte
	fds  []int
	told bool
}

// weight is the contribution of a parcel to Backlog. Descriptors weigh more than bytes, because a
// process can have fewer of them.
func (p *parcel) weight() int { return len(p.line) + len(p.fds)*maxLine }

// NewLine returns the line of a connection with a process of user uid.
func NewLine(conn *net.UnixConn, uid uint32) *Line {
	l := &Line{conn: conn, uid: uid, stirred: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l
}

// Send queues a message with up to 9 descriptors, which the line then owns. It does not block.
func (l *Line) Send(message any, fds ...int) { l.send(message, fds, false) }

// Tell queues an unsolicited message, which is not the response to a request. Told counts it instead of
// Backlog.
func (l *Line) Tell(message any) { l.send(message, nil, true) }

func (l *Line) send(message any, fds []int, told bool) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err) // the caller's type cannot be marshaled, which is a bug
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		closeAll(fds)
		return
	}
	line = append(append([]byte{'0' + byte(len(fds))}, line...), '\n')
	p := parcel{line, fds, told}
	l.out = append(l.out, p)
	*l.weighs(&p) += p.weight()
	l.stir()
}

func (l *Line) stir() {
	select {
	case l.stirred <- struct{}{}:
	default:
	}
}

// weighs returns the weight counter for messages like p. The caller must hold l.mu.
func (l *Line) weighs(p *parcel) *int {
	if p.told {
		return &l.told
	}
	return &l.waiting
}

// Backlog returns the weight of the messages from Send that the other side has not read, in bytes.
// A descriptor counts as 64 KiB.
func (l *Line) Backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Told returns the weight of the unsolicited messages (Tell) that the other side has not read, in bytes.
func (l *Line) Told() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// write writes queued messages until the line is closed.
func (l *Line) write() {
	defer close(l.done)
	for {
		l.mu.Lock()
		out, closed := l.out, l.closed
		l.out = nil
		l.mu.Unlock()
		for _, p := range out {
			var rights []byte
			if len(p.fds) > 0 {
				rights = unix.UnixRights(p.fds...)
			}
			n, _, err := l.conn.WriteMsgUnix(p.line, rights, nil)
			if err == nil && n < len(p.line) {
				_, err = l.conn.Write(p.line[n:])
			}
			closeAll(p.fds)
			if err != nil { // Receive gets the error
				passfd.HangUp(l.conn)
			}
			l.mu.Lock()
			*l.weighs(&p) -= p.weight()
			l.mu.Unlock()
		}
		switch {
		case len(out) > 0:
		case closed:
			return
		default:
			<-l.stirred
		}
	}
}

// Receive returns the next message and its descriptors.
func (l *Line) Receive(message any) (fds []int, err error) {
	buf := make([]byte, 4096)
	for {
		if i := bytes.IndexByte(l.in, '\n'); i >= 0 {
			line := l.in[:i]
			l.in = l.in[i+1:]
			if len(line) == 0 || line[0] < '0' || int(line[0]-'0') > len(l.fds) {
				err = unix.EPROTO
			} else if err = json.Unmarshal(line[1:], message); err == nil {
				n := int(line[0] - '0')
				fds, l.fds = l.fds[:n:n], l.fds[n:]
				return fds, nil
			}
			passfd.Close(l.uid, l.fds...)
			l.fds = nil
			return nil, fmt.Errorf("share: malformed message: %w", err)
		}
		if len(l.in) > maxLine {
			return nil, fmt.Errorf("share: a message of more than %d bytes: %w", maxLine, unix.EPROTO)
		}
		m, err := passfd.Receive(l.conn, l.uid, buf)
		l.fds = append(l.fds, m.FDs...)
		if err == nil && m.N == 0 {
			err = net.ErrClosed
		}
		if err == nil && len(l.fds) > passfd.Most {
			err = errors.New("share: unexpected descriptors")
		}
		if err != nil {
			passfd.Close(l.uid, l.fds...)
			l.fds = nil
			return nil, err
		}
		l.in = append(l.in, buf[:m.N]...)
	}
}

// Finish closes the line after the other side has read all messages, or after patience. The caller
// still owns the connection.
func (l *Line) Finish(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.stir()
	l.mu.Unlock()
	late := time.AfterFunc(patience, func() { passfd.HangUp(l.conn) })
	<-l.done
	late.Stop()
	passfd.HangUp(l.conn)
}
