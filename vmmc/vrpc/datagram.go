package vrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDatagram is the longest call or reply by UDP over IPv4, in bytes. The length field has 16
	// bits, and the headers have 28 bytes.
	maxDatagram = 65535 - 28
	// controlSize is room for the kernel's information about a datagram: its destination.
	controlSize = 64
)

// datagramServer serves the calls that arrive at one UDP socket.
type datagramServer struct {
	server *Server
	conn   *net.UDPConn
	ctx    context.Context
	seen   *duplicates
	group  sync.WaitGroup
}

// datagramWorker serves one call at a time.
type datagramWorker struct {
	session *Session
	msg     []byte
	reply   []byte
	control []byte // the datagram's destination, which is the source of the reply
	from    netip.AddrPort
	key     duplicateKey
	cached  bool // the cache expects the result of the call with key
}

// ServeUDP makes the server serve the calls that arrive at conn. It runs in the background until
// Close, which closes conn. Replies come from the address to which the call was sent. A repeated
// call runs its procedure once (ServerConfig.DuplicateAge).
func (s *Server) ServeUDP(conn *net.UDPConn) error {
	askDestination(conn)
	err := s.Start(conn, func(ctx context.Context) {
		d := &datagramServer{server: s, conn: conn, ctx: ctx, seen: newDuplicates(&s.cfg, &s.stats.DuplicatesEvictedYoung)}
		for range s.cfg.DatagramWorkers {
			d.group.Go(d.work)
		}
		d.group.Wait()
	})
	if err == nil {
		s.addEndpoints(conn, conn.LocalAddr())
	}
	return err
}

// askDestination makes the kernel report the destination of each datagram. If it does not, replies
// come from the address that the route selects.
func askDestination(conn *net.UDPConn) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
	})
}

// work serves calls until the socket is closed. If a procedure ends the goroutine, its call has no
// reply, and another worker replaces this one.
func (d *datagramServer) work() {
	w := &datagramWorker{
		session: d.server.NewSession(d.ctx, Peer{}, maxDatagram),
		msg:     make([]byte, maxDatagram+1), control: make([]byte, controlSize),
	}
	done := false
	defer func() {
		if done {
			return
		}
		if w.cached {
			d.seen.forget(w.key)
		}
		d.group.Go(d.work)
	}()
	for d.one(w) {
	}
	done = true
}

// one receives a datagram and answers it. It reports whether to continue.
func (d *datagramServer) one(w *datagramWorker) bool {
	n, controls, flags, from, err := d.conn.ReadMsgUDPAddrPort(w.msg, w.control)
	if err != nil {
		return !errors.Is(err, net.ErrClosed) && pause(d.ctx)
	}
	stats := &d.server.stats
	stats.Datagrams.Add(1)
	if flags&unix.MSG_TRUNC != 0 || n > maxDatagram {
		stats.DatagramsTruncated.Add(1)
		return true
	}
	w.from = from
	peer := unmap(from)
	w.session.Peer = Peer{Netid: udpNetid(peer), Addr: peer}
	w.reply = d.answer(w, peer, w.msg[:n])
	if len(w.reply) > 0 {
		d.send(w, w.control[:controls])
	}
	return true
}

// answer returns the reply to a call, from the cache if the call is repeated. It returns nothing if
// there is no reply to send.
func (d *datagramServer) answer(w *datagramWorker, peer netip.AddrPort, msg []byte) []byte {
	stats := &d.server.stats
	k, ok := keyOf(peer, msg)
	if !ok {
		reply, _ := w.session.Answer(msg, w.reply[:0]) // what is no call has no reply
		return reply
	}
	reply, seen := d.seen.begin(k, time.Now(), w.reply[:0])
	switch seen {
	case repeatedCall:
		stats.Duplicates.Add(1)
		return reply
	case silentCall:
		stats.DuplicatesDropped.Add(1)
		return reply
	}
	w.key, w.cached = k, true
	reply, _ = w.session.Answer(msg, reply) // the key says that it is a call
	w.cached = false
	d.seen.finish(k, time.Now(), reply)
	return reply
}

// send sends a reply from the address to which the call was sent. If that was a broadcast address,
// it uses the address that the route selects.
func (d *datagramServer) send(w *datagramWorker, control []byte) {
	_, _, err := d.conn.WriteMsgUDPAddrPort(w.reply, control, w.from)
	if err != nil && len(control) > 0 {
		_, err = d.conn.WriteToUDPAddrPort(w.reply, w.from)
	}
	if err != nil {
		d.server.stats.DatagramSendErrors.Add(1)
	}
}

// unmap returns an IPv4 address in its 4-byte form, even if a socket of both versions reports it as
// IPv6.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func udpNetid(peer netip.AddrPort) string {
	if peer.Addr().Is4() {
		return "udp"
	}
	return "udp6"
}

// datagramClient is the Transport over UDP. It repeats a call with the same transaction id until
// the reply arrives.
type datagramClient struct {
	conn            net.Conn
	addr            string
	retry, maxRetry time.Duration
	calls           *pending
	reader          sync.WaitGroup
	clientStats
}

func newDatagramClient(conn net.Conn, cfg *ClientConfig) *datagramClient {
	t := &datagramClient{
		conn: conn, addr: conn.RemoteAddr().String(), calls: newPending(),
		retry:    cmp.Or(cfg.Retry, defaultRetry),
		maxRetry: cmp.Or(cfg.MaxRetry, defaultMaxRetry),
	}
	t.reader.Go(t.read)
	return t
}

// RoundTrip sends the call and repeats it until the reply arrives.
func (t *datagramClient) RoundTrip(ctx context.Context, x *Exchange) error {
	if len(x.Message) > maxDatagram {
		return fmt.Errorf("%w: call of %d bytes: a datagram holds at most %d (use TCP)", errTooLarge, len(x.Message), maxDatagram)
	}
	if err := t.calls.add(x); err != nil {
		return err
	}
	sent := 0
	for wait := t.retry; ; wait = nextRetry(wait, t.maxRetry) {
		if err := t.send(x.Message, sent > 0); err != nil {
			return t.calls.outcome(x, err)
		}
		if sent++; sent > 1 {
			t.Repeated.Add(1)
		}
		left := x.left()
		done, err := x.await(ctx, shorter(wait, left))
		switch {
		case done:
			return err
		case err != ErrTimeout:
			return t.calls.outcome(x, err)
		case left >= 0 && left <= wait:
			err = fmt.Errorf("%w from udp %s; sent %d times", ErrTimeout, t.addr, sent)
			return t.calls.outcome(x, err)
		}
	}
}

// nextRetry returns the time between the next two retransmissions.
func nextRetry(wait, most time.Duration) time.Duration { return min(2*wait, most) }

// shorter returns the shorter of two waiting times. A negative left means no limit.
func shorter(wait, left time.Duration) time.Duration {
	if left < 0 {
		return wait
	}
	return min(wait, left)
}

// send sends a datagram. The kernel may also report here that the server's host has refused an
// earlier one. send ignores that, because the reader has already failed the affected calls, or they
// will be repeated.
func (t *datagramClient) send(msg []byte, repeated bool) error {
	_, err := t.conn.Write(msg)
	if err != nil && refused(err) {
		_, err = t.conn.Write(msg)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return ErrClosed
	}
	return &TransportError{Addr: t.addr, Sent: repeated, Err: err}
}

// Send sends a call once.
func (t *datagramClient) Send(_ context.Context, x *Exchange) error {
	if len(x.Message) > maxDatagram {
		return fmt.Errorf("%w: call of %d bytes: a datagram holds at most %d (use TCP)", errTooLarge, len(x.Message), maxDatagram)
	}
	return t.send(x.Message, false)
}

// Release does nothing, because the reply is in the exchange's own memory.
func (t *datagramClient) Release(*Exchange) {}

// RemoteAddr returns the server's address.
func (t *datagramClient) RemoteAddr() net.Addr { return t.conn.RemoteAddr() }

// Close ends all calls.
func (t *datagramClient) Close() error {
	t.calls.fail(ErrClosed, true)
	err := t.conn.Close()
	t.reader.Wait()
	if errors.Is(err, net.ErrClosed) {
		return ErrClosed
	}
	return err
}

// read passes replies to the calls that wait for them.
func (t *datagramClient) read() {
	buf := make([]byte, maxDatagram+1)
	for {
		n, err := t.conn.Read(buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			t.calls.fail(&TransportError{Addr: t.addr, Sent: true, Err: err}, false)
			if !refused(err) {
				pause(context.Background())
			}
			continue
		}
		xid, ok := messageXID(buf[:n], msgReply)
		if !ok {
			t.NotAReply.Add(1)
			continue
		}
		x := t.calls.removeID(xid)
		if x == nil {
			t.Strays.Add(1)
			continue
		}
		x.Reply = append(x.Reply[:0], buf[:n]...)
		x.done <- nil
	}
}
