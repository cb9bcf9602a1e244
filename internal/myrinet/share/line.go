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

// maxLine is how long a message may be, in bytes.
const maxLine = 64 << 10

// Line is one end of the connection between a program and the process that has the card, as messages:
// lines of JSON, each with a digit before it that says how many descriptors it has, since several may be
// read together. Goroutines may share it; one at a time calls Receive.
type Line struct {
	conn *net.UnixConn
	uid  uint32 // of the other side
	in   []byte
	fds  []int

	mu      sync.Mutex
	out     []parcel
	waiting int // weight of what was sent, and is not written yet
	told    int // the same of what was told
	closed  bool
	stirred chan struct{} // of capacity 1
	done    chan struct{} // closed when the last has been written
}

type parcel struct {
	line []byte
	fds  []int
	told bool
}

// weight is what a parcel counts in Backlog. A process can have few descriptors, and much memory.
func (p *parcel) weight() int { return len(p.line) + len(p.fds)*maxLine }

// NewLine begins with a connection with a process of user uid.
func NewLine(conn *net.UnixConn, uid uint32) *Line {
	l := &Line{conn: conn, uid: uid, stirred: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l
}

// Send has a message sent, with up to 9 descriptors, which it takes over. It does not wait.
func (l *Line) Send(message any, fds ...int) { l.send(message, fds, false) }

// Tell sends a message that the other side has not asked for. It counts in Told instead of Backlog.
func (l *Line) Tell(message any) { l.send(message, nil, true) }

func (l *Line) send(message any, fds []int, told bool) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err) // a mistake of the caller's type
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

// weighs returns the counter of messages like p. The caller must hold l.mu.
func (l *Line) weighs(p *parcel) *int {
	if p.told {
		return &l.told
	}
	return &l.waiting
}

// Backlog returns how many bytes of Send the other side has not taken yet. A descriptor counts as 64 KiB.
func (l *Line) Backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// Told returns how many bytes of Tell the other side has not taken yet.
func (l *Line) Told() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// write sends what there is until the line is closed.
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
			if err != nil { // Receive hears of it
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
			return nil, fmt.Errorf("share: a message that makes no sense: %w", err)
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
			err = errors.New("share: descriptors that nobody wants")
		}
		if err != nil {
			passfd.Close(l.uid, l.fds...)
			l.fds = nil
			return nil, err
		}
		l.in = append(l.in, buf[:m.N]...)
	}
}

// Finish ends the line, when the other side has taken what was sent, but after patience at the latest.
// The connection is the caller's to close.
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
