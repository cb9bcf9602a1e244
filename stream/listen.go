package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
)

// ListenConfig configures a listener. The zero value means the defaults.
type ListenConfig struct {
	// Host is the NIC to use; nil means the default Host, as for Dialer.
	Host *Host
	// Backlog is the maximum number of streams that Accept has not returned, including streams
	// whose handshake is incomplete; 0 means 128. Further requests wait at the requester, which
	// repeats them automatically.
	Backlog int
}

// Listener accepts connections, a net.Listener. It may be shared between goroutines.
type Listener struct {
	host *Host
	vl   *vipl.Listener
	cq   *seam.Queue
	addr Addr

	ctx    context.Context // ends with the listener
	cancel context.CancelFunc
	asked  chan struct{} // holds one if requests may wait
	slots  chan struct{} // one for each stream that Accept has not returned
	ready  chan *Conn
	group  sync.WaitGroup

	mu      sync.Mutex
	limit   *time.Timer   // of the deadline, or nil
	expired chan struct{} // closed when the deadline has passed
}

var _ net.Listener = (*Listener)(nil)

// Listen listens with the default ListenConfig. See ListenConfig.Listen for address.
func Listen(ctx context.Context, address string) (*Listener, error) {
	return (&ListenConfig{}).Listen(ctx, address)
}

// Listen accepts connections at an address. "bobnet://NAME" or "NAME" is advertised on
// the segment, with a free port. ":PORT" or "MAC:PORT" is a port of the NIC's
// range. Port 0 and the empty address mean any free port (Listener.Addr). The caller must
// choose a name that is unique. ctx bounds this call only, not the life of the listener.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	l, err := lc.listen(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: Network, Err: err}
	}
	return l, nil
}

func (lc *ListenConfig) listen(ctx context.Context, address string) (*Listener, error) {
	backlog := lc.Backlog
	if backlog == 0 {
		backlog = defaultBacklog
	}
	if backlog < 1 {
		return nil, fmt.Errorf("stream: %w: backlog %d (want 1 or more)", vipl.ErrArgument, backlog)
	}
	h, err := lc.Host.orStandard(ctx)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	addr, err := h.localAddr(address)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		host: h, addr: addr, asked: make(chan struct{}, 1), slots: make(chan struct{}, backlog), ready: make(chan *Conn, backlog),
		expired: make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if err := l.startListening(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// localAddr parses the address of a listener.
func (h *Host) localAddr(address string) (Addr, error) {
	mac := h.nic.Addr().MAC
	switch {
	case address == "":
		return Addr{Addr: ethertype.Addr{MAC: mac}}, nil
	case address[0] == ':':
		address = mac.String() + address
	}
	addr, err := ParseAddr(address)
	if err == nil && addr.Name == "" && addr.Addr.MAC != mac {
		err = &net.AddrError{Err: "the NIC's own address is " + mac.String(), Addr: address}
	}
	return addr, err
}

// startListening makes the listener accept requests. No goroutine waits for requests at the NIC: it would often be the
// one that drives the NIC, and would have to wake all others.
func (l *Listener) startListening() (err error) {
	h := l.host
	if l.vl, err = h.nic.Listen(l.addr.Addr.Port); err != nil {
		return err
	}
	l.addr.Addr = l.vl.Addr()
	if l.cq, err = seam.NewQueue(h.nic, 1, 1); err != nil {
		return err
	}
	if err := l.vl.Bind(l.cq.CQ); err != nil {
		return err
	}
	if l.addr.Name != "" {
		if err := h.nic.Advertise(l.addr.Name, l.addr.Addr); err != nil {
			return err
		}
	}
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.listeners[l] = struct{}{}
	}
	h.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	if h.virtual {
		return nil
	}
	l.group.Go(l.serve)
	return l.cq.Attend(l.wake)
}

// wake is called when requests have arrived.
func (l *Listener) wake() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// serve accepts requests, as many at a time as there are slots.
func (l *Listener) serve() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.host.nic.Ended():
			return
		case <-l.ctx.Done():
			return
		}
		var asked []seam.Completion
		for {
			if asked = l.cq.Reap(); len(asked) > 0 {
				break
			}
			select {
			case <-l.asked:
			case <-l.host.nic.Ended():
				return
			case <-l.ctx.Done():
				return
			}
		}
		req := asked[0].Request
		l.group.Go(func() { l.handshake(req) })
	}
}

// handshake creates a stream for a request.
func (l *Listener) handshake(req *vipl.Request) {
	c, err := l.host.accept(l.ctx, req)
	if err != nil {
		<-l.slots
		return
	}
	l.ready <- c // it has room for all slots
}

// accept creates a stream for a request, or refuses the request.
func (h *Host) accept(ctx context.Context, req *vipl.Request) (*Conn, error) {
	ctx, cancel := h.nic.WithTimeout(ctx, vipl.DefaultConnectTimeout)
	defer cancel()
	c, err := h.newConn()
	if err == nil {
		err = c.accept(ctx, req)
	}
	if err == nil {
		if err = h.addConn(c, &h.counts.Accepted); err == nil {
			return c, nil
		}
	}
	if errors.Is(err, ErrPeer) {
		h.refuse()
	}
	h.count(&h.counts.Failed)
	req.Reject(err.Error()) // if it is not decided yet
	c.tear()
	return nil, err
}

// Accept returns the next stream with a complete handshake, a *Conn. It blocks until there is one.
// It fails if the deadline has passed, if the listener or its NIC is closed (net.ErrClosed), or if
// the NIC's link has failed (vipl.ErrLink).
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptStream()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptStream is like Accept, but returns a *Conn.
func (l *Listener) AcceptStream() (*Conn, error) {
	if l.host.virtual {
		return l.acceptVirtual()
	}
	l.mu.Lock()
	expired := l.expired
	l.mu.Unlock()
	select {
	case <-l.ctx.Done():
		return nil, l.opError(net.ErrClosed)
	case <-l.host.nic.Ended():
		return nil, l.opError(waitError(l.host.nic.Cause()))
	case <-expired:
		return nil, l.opError(os.ErrDeadlineExceeded)
	default:
	}
	select {
	case c := <-l.ready:
		<-l.slots
		return c, nil
	case <-expired:
		return nil, l.opError(os.ErrDeadlineExceeded)
	case <-l.host.nic.Ended():
		return nil, l.opError(waitError(l.host.nic.Cause()))
	case <-l.ctx.Done():
		return nil, l.opError(net.ErrClosed)
	}
}

// acceptVirtual is Accept in virtual time, where only goroutines of the simulator may wait: it
// completes one handshake after another.
func (l *Listener) acceptVirtual() (*Conn, error) {
	for {
		req, err := l.vl.Wait(l.ctx)
		if err != nil {
			return nil, l.opError(waitError(err))
		}
		if c, err := l.host.accept(l.ctx, req); err == nil {
			return c, nil
		}
	}
}

func (l *Listener) opError(err error) error {
	return &net.OpError{Op: "accept", Net: Network, Addr: l.addr, Err: err}
}

// SetDeadline sets the time after which Accept fails with os.ErrDeadlineExceeded, including an
// Accept that is already blocked; zero means never.
func (l *Listener) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit != nil && !l.limit.Stop() || l.isExpired() {
		l.expired = make(chan struct{})
	}
	l.limit = nil
	if t.IsZero() {
		return nil
	}
	expired := l.expired
	if d := time.Until(t); d > 0 {
		l.limit = time.AfterFunc(d, func() { close(expired) })
	} else {
		close(expired)
	}
	return nil
}

func (l *Listener) isExpired() bool {
	select {
	case <-l.expired:
		return true
	default:
		return false
	}
}

// Addr returns the listener's address, an Addr with the name if there is one.
func (l *Listener) Addr() net.Addr { return l.addr }

// Close closes the listener. Blocked Accept calls return net.ErrClosed. Streams that Accept has not
// returned are closed. Closing twice does nothing.
func (l *Listener) Close() error {
	l.cancel()
	h := l.host
	h.mu.Lock()
	_, listed := h.listeners[l]
	delete(h.listeners, l)
	h.empty.Broadcast()
	h.mu.Unlock()
	if listed && l.addr.Name != "" {
		h.nic.Withdraw(l.addr.Name)
	}
	if l.vl != nil {
		l.vl.Close()
	}
	if l.cq != nil {
		l.cq.Close()
	}
	l.group.Wait()
	for {
		select {
		case c := <-l.ready:
			c.Close()
		default:
			l.mu.Lock()
			if l.limit != nil {
				l.limit.Stop()
			}
			l.mu.Unlock()
			return nil
		}
	}
}
