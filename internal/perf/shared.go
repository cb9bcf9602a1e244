package perf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// sharedStack measures shared memory without any protocol, which is the lower limit of times on the
// link "shm". The stack "line" bounces a cache line between the halves. The stack "handoff" copies
// messages once into shared memory, where the other half reads each of their cache lines. Both
// halves must be on one host.
type sharedStack struct{ name, test string }

// Cases is part of Stack.
func (s sharedStack) Cases(p *Plan, test string, mtu, size int) []Case {
	if test != s.test || !slices.Contains(p.Links, linkShm) || !slices.Contains(p.Waits, Spin) {
		return nil
	}
	return []Case{{Stack: s.name, Test: test, Wait: Spin, Link: linkShm, MTU: mtu, Size: size}}
}

// sharedConn is one end of a sharedStack.
type sharedConn struct {
	mem     *shared
	tx      cursor
	bounced uint64 // round trips
	handed  uint64 // chunks
	touched uint64 // sum of the values that touch has read; it keeps the compiler from omitting the reads
}

// Open implements Stack. The server allocates the memory and sends its descriptor to the client.
func (sharedStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	fd, err := h.shareMemory(ctx)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	mem, err := mapShared(fd)
	if err != nil {
		return nil, fmt.Errorf("perf: map shared memory: %w", err)
	}
	return &sharedConn{mem: mem, tx: newCursor(c.Size)}, nil
}

// shareMemory returns a descriptor of memory that both halves share.
func (h *Half) shareMemory(ctx context.Context) (int, error) {
	if !h.server {
		name, err := h.Exchange("")
		if err != nil {
			return -1, err
		}
		return receiveMemory(ctx, name)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("@bobnet/perf/%d/%d", unix.Getpid(), time.Now().UnixNano()), Net: "unix"})
	if err != nil {
		return -1, fmt.Errorf("perf: share memory: %w", err)
	}
	defer l.Close()
	if _, err := h.Exchange(l.Addr().String()); err != nil {
		return -1, err
	}
	return sendMemory(ctx, l)
}

// sendMemory allocates the memory and sends it to the first process of this user that connects. It
// checks the user, because any user of the host can see the socket's name and connect.
func sendMemory(ctx context.Context, l *net.UnixListener) (int, error) {
	fd, err := unix.MemfdCreate("bobnet-perf", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("perf: share memory: %w", err)
	}
	err = unix.Ftruncate(fd, int64(sharedSize))
	if err == nil {
		l.SetDeadline(deadlineOf(ctx))
		for given := false; err == nil && !given; {
			var conn *net.UnixConn
			if conn, err = l.AcceptUnix(); err != nil {
				break
			}
			if who, failed := passfd.PeerOf(conn); failed == nil && int64(who.Uid) == int64(os.Geteuid()) {
				_, _, err = conn.WriteMsgUnix([]byte{1}, unix.UnixRights(fd), nil)
				given = true
			}
			passfd.Refuse(conn)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("perf: share memory: %w", err)
	}
	return fd, nil
}

// errNoMemory is the error for halves that are not on one host.
var errNoMemory = errors.New("perf: no shared memory from the other half (are both in the same network namespace?)")

func receiveMemory(ctx context.Context, name string) (int, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", name)
	if err != nil {
		return -1, fmt.Errorf("%w: %w", errNoMemory, err)
	}
	defer conn.Close()
	conn.SetDeadline(deadlineOf(ctx))
	who, err := passfd.PeerOf(conn.(*net.UnixConn))
	if err != nil {
		return -1, fmt.Errorf("%w: %w", errNoMemory, err)
	}
	if int64(who.Uid) != int64(os.Geteuid()) {
		return -1, fmt.Errorf("%w: it belongs to user %d", errNoMemory, who.Uid)
	}
	m, err := passfd.Receive(conn.(*net.UnixConn), who.Uid, make([]byte, 1))
	if err != nil || len(m.FDs) != 1 {
		passfd.Close(who.Uid, m.FDs...)
		return -1, errors.Join(errNoMemory, err)
	}
	return m.FDs[0], nil
}

// lineChunk is the number of bounces that are timed together. Reading the clock after each bounce
// would take a large part of the bounce's time.
const lineChunk = 64

// PingPong is part of Conn.
func (s *sharedConn) PingPong(ctx context.Context, rtt []int64) error {
	deadline := deadlineOf(ctx)
	for len(rtt) > 0 {
		chunk := rtt[:min(len(rtt), lineChunk)]
		start := time.Now()
		for range chunk {
			s.bounced++
			s.mem.ping.Store(s.bounced)
			if !spinUntil(&s.mem.pong, s.bounced, deadline) {
				return context.DeadlineExceeded
			}
		}
		each := int64(time.Since(start)) / int64(len(chunk))
		for i := range chunk {
			chunk[i] = each
		}
		rtt = rtt[len(chunk):]
	}
	return nil
}

// Echo is part of Conn.
func (s *sharedConn) Echo(ctx context.Context, n int) error {
	deadline := deadlineOf(ctx)
	for range n {
		s.bounced++
		if !spinUntil(&s.mem.ping, s.bounced, deadline) {
			return context.DeadlineExceeded
		}
		s.mem.pong.Store(s.bounced)
	}
	return nil
}

// Stream is part of Conn.
func (s *sharedConn) Stream(ctx context.Context, n int) (int, error) {
	deadline := deadlineOf(ctx)
	for sent := 0; sent < n; {
		if s.handed >= handSlots && !spinPast(&s.mem.tail, s.handed-handSlots, deadline) {
			return 0, context.DeadlineExceeded
		}
		k := copy(s.mem.slots[s.handed%handSlots][:], s.tx.next(handChunk))
		s.handed++
		s.mem.head.Store(s.handed)
		if s.tx.advance(k) {
			sent++
		}
	}
	if !spinUntil(&s.mem.tail, s.handed, deadline) {
		return 0, context.DeadlineExceeded
	}
	return n, nil
}

// Sink is part of Conn.
func (s *sharedConn) Sink(ctx context.Context, n int) error {
	deadline := deadlineOf(ctx)
	for got := 0; got < n; {
		if !spinPast(&s.mem.head, s.handed, deadline) {
			return context.DeadlineExceeded
		}
		k := len(s.tx.next(handChunk))
		s.touched += touch(s.mem.slots[s.handed%handSlots][:k])
		s.handed++
		s.mem.tail.Store(s.handed)
		if s.tx.advance(k) {
			got++
		}
	}
	return nil
}

// Counters is part of Conn.
func (s *sharedConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (s *sharedConn) Close() error { return s.mem.unmap() }
