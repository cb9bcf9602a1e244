package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// patience is how long a program waits for the agent, once it is connected: who asks too
// often is kept waiting.
const patience = 15 * time.Second

// How long a program waits before it connects to an agent again that has ended: each time
// twice as long.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// LeaseOf returns the lease of a link, or of the link that it wraps; nil for none. Package ring sets it.
var LeaseOf func(link transport.Link) *Lease

// Lease is what an agent has given to a link of this process: Station, with its sockets and
// its ports. The link takes the sockets, and releases the station.
type Lease struct {
	Station *afpacket.Station
	Long    bool // the sockets take long frames

	path    string
	request Request
	shown   []int // what another agent is shown: descriptors of the lease's own
	near    []int // for TakeNear

	mu     sync.Mutex
	conn   *net.UnixConn // nil while there is none
	answer func(what string) ([]byte, error)
	closed chan struct{}
	ended  bool
}

// Wish is what a link wants.
type Wish struct {
	Interface string // as iface.Find takes it
	EtherType ethernet.EtherType
	Ports     transport.PortRange
	Long      func(iface.Interface) bool // whether it could carry long frames there
	Near      bool                       // whether it wants the sockets for TakeNear
}

// Open asks the agent whose socket has this path. If nobody serves there the error wraps
// fs.ErrNotExist or ECONNREFUSED; ErrRefused if somebody refuses, with EADDRINUSE for ports
// that are taken and transport.ErrPermission for what the agent's policy forbids. ctx bounds the
// call alone, not the lease.
func Open(ctx context.Context, path string, wish Wish) (*Lease, error) {
	typ, err := afpacket.CheckEtherType(wish.EtherType)
	if err != nil {
		return nil, err
	}
	ifi, err := iface.Find(wish.Interface)
	if err != nil {
		return nil, err
	}
	l := &Lease{path: path, closed: make(chan struct{}), request: Request{Version: Version, Interface: ifi.Name, Index: ifi.Index, MAC: ifi.MAC.String(),
		EtherType: typ, Ports: wish.Ports, Long: wish.Long(ifi), Near: wish.Near}}
	conn, reply, fds, err := l.ask(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.take(ifi, reply, fds); err != nil {
		closePassed(conn, append(fds, l.shown...))
		conn.Close()
		return nil, err
	}
	go l.serve(conn)
	return l, nil
}

// take makes a station of what the agent has given.
func (l *Lease) take(ifi iface.Interface, reply Reply, fds []int) error {
	packets := reply.sockets()
	claims := len(fds) - reply.Near
	if reply.Near < 0 || claims <= packets {
		return fmt.Errorf("transport: the agent has sent %d descriptors, want more than %d: %w", len(fds), packets, unix.EPROTO)
	}
	claim, err := afpacket.AdoptClaim(ifi.Index, l.request.EtherType, reply.Ports, fds[packets:claims])
	if err != nil {
		return err
	}
	for _, fd := range append([]int{fds[0]}, fds[packets:claims]...) {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		l.shown = append(l.shown, own)
	}
	l.near = fds[claims:]
	l.request.Ports, l.request.Held, l.request.Near = reply.Ports, true, false
	l.request.Long, l.Long = reply.Long, reply.Long
	l.Station = &afpacket.Station{Interface: ifi, EtherType: l.request.EtherType, Claim: claim, Given: fds[:packets:packets], Device: reply.Device}
	return nil
}

// ask connects and asks, while ctx lasts. The descriptors are the caller's.
func (l *Lease) ask(ctx context.Context) (conn *net.UnixConn, reply Reply, fds []int, err error) {
	conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return nil, reply, nil, fmt.Errorf("transport: agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	conn.SetDeadline(time.Now().Add(patience))
	if err = l.show(conn); err == nil {
		fds, err = Read(conn, &reply, MaxRequest)
	}
	if !stop() {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		err = fmt.Errorf("transport: agent at %s: %w", l.path, err)
	case reply.Refusal != "":
		err = l.refused(reply)
	default:
		conn.SetDeadline(time.Time{})
		return conn, reply, fds, nil
	}
	closePassed(conn, fds)
	conn.Close()
	return nil, reply, nil, err
}

// show sends the request. Close closes what is shown, and the connection, not while this is
// under way.
func (l *Lease) show(conn *net.UnixConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return net.ErrClosed
	}
	l.conn = conn
	return Write(conn, &l.request, l.shown...)
}

// refused returns the error for a refusal.
func (l *Lease) refused(reply Reply) error {
	kind := map[Refusal]error{Denied: transport.ErrPermission, Taken: unix.EADDRINUSE, Elsewhere: transport.ErrInterface, Invalid: unix.EINVAL, Busy: unix.EAGAIN}[reply.Refusal]
	if kind == nil {
		kind = unix.EIO
	}
	return fmt.Errorf("%w: %w: %s says: %s", ErrRefused, kind, l.path, reply.Error)
}

// None reports whether err, of Open, says that there is no agent, or one that this process
// may not speak to.
func None(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrRefused)
}

// Answer sets what is said when the agent asks: an error, or more than Question.Limit bytes, is an
// empty answer. It is called on a goroutine of the lease's, one call at a time, maybe once more
// after Close has returned.
func (l *Lease) Answer(f func(what string) ([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = f
}

// serve answers the agent's questions, and connects to the next agent when one ends.
func (l *Lease) serve(conn *net.UnixConn) {
	for {
		for conn != nil && l.reply(conn) == nil {
		}
		if conn != nil {
			conn.Close()
		}
		if conn = l.again(); conn == nil {
			return
		}
	}
}

// again connects until it has a connection; nil when the lease is closed.
func (l *Lease) again() *net.UnixConn {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		timer := time.NewTimer(pause)
		select {
		case <-l.closed:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		conn, _, fds, err := l.ask(context.Background())
		if err == nil {
			closePassed(conn, fds)
			return conn
		}
	}
}

// reply answers one question.
func (l *Lease) reply(conn *net.UnixConn) error {
	var q Question
	fds, err := Read(conn, &q, MaxRequest)
	closePassed(conn, fds)
	if err != nil {
		return err
	}
	l.mu.Lock()
	answer := l.answer
	l.mu.Unlock()
	var body []byte
	if answer != nil {
		if body, err = answer(q.What); err != nil || len(body) > q.Limit() {
			body = nil
		}
	}
	conn.SetWriteDeadline(time.Now().Add(patience))
	return WriteBytes(conn, body)
}

// Tell has answer answer what the agent at path asks of this program, Metrics and Dump, until
// stop is called. It connects by itself, also to an agent that starts later; with no path, or
// where the agent's policy does not let this user in, nobody asks. How answer is called is said
// at Answer.
func Tell(path string, answer func(what string) ([]byte, error)) (stop func()) {
	if path == "" {
		return func() {}
	}
	l := &Lease{path: path, closed: make(chan struct{}), answer: answer, request: Request{Version: Version, Tells: true}}
	go l.serve(nil)
	return l.Close
}

// TakeNear returns the sockets by which the link is found within the host, if the agent has given any, for
// shm.Config.Sockets. They are the caller's then.
func (l *Lease) TakeNear() (near []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	near, l.near = l.near, nil
	return near
}

// Close ends the connection to the agent. It does not wait for an answer under way. It does
// not release the station.
func (l *Lease) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	close(l.closed)
	if l.conn != nil {
		l.conn.Close()
	}
	CloseAll(l.shown)
	CloseAll(l.near)
}
