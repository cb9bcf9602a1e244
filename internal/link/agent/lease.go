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

// patience is how long a program waits for the agent's answer. The agent delays programs that ask
// too often.
const patience = 15 * time.Second

// Wait before reconnecting to an agent that has ended; it doubles each time.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
)

// LeaseOf returns the lease of a link, or of the link that it wraps, or nil. Package ring sets it.
var LeaseOf func(link transport.Link) *Lease

// Lease holds what an agent has given to a link of this process: Station, with its sockets and
// ports. The link takes the sockets, and releases the station.
type Lease struct {
	Station *afpacket.Station
	Long    bool // the sockets carry long frames

	path    string
	request Request
	shown   []int // the lease's own descriptors, to show to another agent
	near    []int // result of TakeNear

	mu     sync.Mutex
	conn   *net.UnixConn // nil while disconnected
	answer func(what string) ([]byte, error)
	closed chan struct{}
	ended  bool
}

// Wish is a link's request.
type Wish struct {
	Interface string // as in iface.Find
	EtherType ethernet.EtherType
	Ports     transport.PortRange
	Long      func(iface.Interface) bool // whether the link supports long frames there
	Near      bool                       // whether it needs the sockets of TakeNear
}

// Open asks the agent at path for sockets. If no agent serves there, the error wraps fs.ErrNotExist
// or ECONNREFUSED. If the agent refuses, it wraps ErrRefused, with EADDRINUSE for taken ports and
// transport.ErrPermission for a violation of its policy. ctx bounds the call alone, not the lease.
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
	if err := l.createStation(ifi, reply, fds); err != nil {
		closePassed(conn, append(fds, l.shown...))
		conn.Close()
		return nil, err
	}
	go l.serve(conn)
	return l, nil
}

// createStation creates a station from the agent's reply.
func (l *Lease) createStation(ifi iface.Interface, reply Reply, fds []int) error {
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

// ask connects and sends the request, bounded by ctx. The caller owns the descriptors.
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

// show sends the request. Close must not close the shown descriptors and the connection meanwhile.
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

// None reports whether err, an error of Open, means that there is no agent or that this process may
// not connect to it.
func None(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrRefused)
}

// Answer sets the function that answers the agent's questions. An error, or more than
// Question.Limit bytes, counts as an empty answer. A goroutine of the lease calls it, one call at a
// time, possibly once more after Close has returned.
func (l *Lease) Answer(f func(what string) ([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = f
}

// serve answers the agent's questions. If the agent ends, it connects to the next one.
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

// again tries to connect until it succeeds. It returns nil if the lease is closed.
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

// Tell makes answer answer the questions of the agent at path about this program, Metrics and Dump,
// until stop is called. It connects automatically, also to an agent that starts later. If path is
// empty, or the agent's policy excludes this user, it never calls answer. Answer documents the
// calls.
func Tell(path string, answer func(what string) ([]byte, error)) (stop func()) {
	if path == "" {
		return func() {}
	}
	l := &Lease{path: path, closed: make(chan struct{}), answer: answer, request: Request{Version: Version, Tells: true}}
	go l.serve(nil)
	return l.Close
}

// TakeNear returns the sockets by which programs of the host find the link, for shm.Config.Sockets,
// if the agent has given any. The caller then owns them.
func (l *Lease) TakeNear() (near []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	near, l.near = l.near, nil
	return near
}

// Close ends the connection to the agent. It does not wait for an answer in progress, and does not
// release the station.
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
