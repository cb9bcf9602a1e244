package directory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
	"golang.org/x/sys/unix"
)

// Errors of Dial and Enter.
var (
	ErrNone    = errors.New("no daemon runs")
	ErrUser    = errors.New("the daemon belongs neither to root nor to this user")
	ErrVersion = errors.New("the daemon is of another version")
	ErrTaken   = errors.New("the number is another process's")
)

// Delays of a Client.
const (
	answerTime   = 5 * time.Second // a daemon that does not answer for this long counts as hung
	proveTime    = 10 * time.Second
	reconnectMin = 10 * time.Millisecond
	reconnectMax = time.Second
)

// Socket returns the abstract name of the socket of a node's daemon. Processes first look for a
// file of root's daemon under that name (package runsocket).
func Socket(node ethertype.MAC) string { return runsocket.Abstract(socketName(node)) }

func socketName(node ethertype.MAC) string { return "vmmc/" + node.String() }

// Listen listens on the socket that Socket names.
func Listen(node ethertype.MAC) (*net.UnixListener, error) {
	return runsocket.Listen("unixpacket", socketName(node))
}

// Connect connects with the socket of a daemon.
func Connect(socket string) (*net.UnixConn, error) {
	if name, own := strings.CutPrefix(socket, runsocket.Abstract("")); own {
		return runsocket.Dial("unixpacket", name)
	}
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
}

// Client is the directory that asks the daemon of the node. When the daemon ends, the client waits
// for the next one and repeats its registrations. Questions wait meanwhile.
type Client struct {
	socket string
	scope  string
	log    *slog.Logger
	ended  chan struct{} // closed by Close

	mu      sync.Mutex
	conn    *net.UnixConn // nil while there is no daemon
	closed  bool
	self    provider.Identity
	entered bool
	exports map[uint32]struct{}
	words   map[string]uint32
	tickets map[provider.Ticket]ethertype.Addr
	met     map[ethertype.MAC]struct{}
	asked   map[uint32]*question
	seq     uint32
	onDeath func(ethertype.Addr, uint64)
}

// question waits for its answer, from this daemon or the next.
type question struct {
	m      Message
	answer func(Message) // called once, without the lock
}

var _ Directory = (*Client)(nil)

// Dial connects to the daemon that listens at a socket. Processes of the same scope find each
// other. ctx bounds the call alone.
func Dial(ctx context.Context, socket, scope string, log *slog.Logger) (*Client, error) {
	c := &Client{socket: socket, scope: scope, log: log, ended: make(chan struct{}), exports: map[uint32]struct{}{}, words: map[string]uint32{},
		tickets: map[provider.Ticket]ethertype.Addr{}, met: map[ethertype.MAC]struct{}{}, asked: map[uint32]*question{},
		onDeath: func(ethertype.Addr, uint64) {}}
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("vmmc: daemon at %s: %w", socket, err)
	}
	c.conn = conn
	go c.run(conn)
	return c, nil
}

// dial connects and exchanges greetings, bounded by ctx.
func (c *Client) dial(ctx context.Context) (*net.UnixConn, error) {
	conn, err := Connect(c.socket)
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%w: start bobnet daemon", ErrNone)
	case err != nil:
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	if err = greet(conn); !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// greet checks the user and the protocol version of the daemon.
func greet(conn *net.UnixConn) error {
	who, err := PeerOf(conn)
	if err != nil {
		return err
	}
	if who.Uid != 0 && int(who.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: process %d of user %d listens there, and this one is user %d's: have root run bobnet daemon", ErrUser, who.Pid, who.Uid, os.Geteuid())
	}
	if _, err := conn.Write(AppendGreeting(nil, Version)); err != nil {
		return err
	}
	var b [MaxMessage]byte
	_ = conn.SetReadDeadline(time.Now().Add(answerTime))
	n, err := conn.Read(b[:])
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	switch version, ok := ParseGreeting(b[:n]); {
	case !ok:
		return fmt.Errorf("%w: malformed greeting", ErrVersion)
	case version != Version:
		return fmt.Errorf("%w: it has %d, this program %d: build both from one source", ErrVersion, version, Version)
	}
	return nil
}

// PeerOf returns the process and user at the other end of conn.
func PeerOf(conn *net.UnixConn) (who *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) { who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return nil, e
	}
	return who, err
}

// run reads from one daemon after the other until Close.
func (c *Client) run(conn *net.UnixConn) {
	for conn != nil {
		c.listen(conn)
		c.mu.Lock()
		closed := c.closed
		c.lose(conn)
		c.mu.Unlock()
		if closed {
			return
		}
		conn = c.reconnect()
	}
}

// listen reads from a daemon until it ends.
func (c *Client) listen(conn *net.UnixConn) {
	b := make([]byte, MaxMessage)
	for {
		n, err := conn.Read(b)
		if err != nil || n == 0 {
			return
		}
		m, ok := Parse(b[:n])
		if !ok {
			return
		}
		c.hear(m)
	}
}

func (c *Client) hear(m Message) {
	switch m.Kind {
	case Died:
		c.mu.Lock()
		f := c.onDeath
		c.mu.Unlock()
		f(m.Self.Addr, m.Self.Incarnation)
	case Entered, Refused, Matched, Proven:
		c.mu.Lock()
		q := c.asked[m.Seq]
		delete(c.asked, m.Seq)
		if q != nil && m.Kind == Matched && m.Ticket != (provider.Ticket{}) {
			c.tickets[m.Ticket] = m.Addr
			c.met[m.Addr.MAC] = struct{}{}
		}
		if q != nil && m.Kind == Entered && q.m.Kind == Enter { // from now on the client registers it with each new daemon
			c.self, c.entered = q.m.Self, true
		}
		c.mu.Unlock()
		if q != nil {
			q.answer(m)
		}
	}
}

// reconnect tries to connect until a daemon answers or Close is called, and repeats all
// registrations.
func (c *Client) reconnect() *net.UnixConn {
	for delay := reconnectMin; ; delay = min(2*delay, reconnectMax) {
		wait := time.NewTimer(delay)
		select {
		case <-c.ended:
			wait.Stop()
			return nil
		case <-wait.C:
		}
		conn, err := c.dial(context.Background())
		if err != nil {
			if !errors.Is(err, ErrNone) {
				c.log.Warn("vmmc: the daemon of the node cannot be used: the process continues without it", "err", err)
			}
			continue
		}
		if c.tellAll(conn) {
			return conn
		}
	}
}

// tellAll registers everything with a new daemon that the previous one knew.
func (c *Client) tellAll(conn *net.UnixConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return false
	}
	c.conn = conn
	if c.entered {
		for seq, q := range c.asked { // sent to daemons that have ended before they answered
			if q.m.Kind == Enter {
				delete(c.asked, seq)
			}
		}
		c.seq++
		c.asked[c.seq] = &question{Message{Kind: Enter, Seq: c.seq, Self: c.self, Text: c.scope}, func(m Message) {
			if m.Kind == Refused {
				c.log.Error("vmmc: the new daemon of the node refuses the process: others will not find it", "why", m.Text)
			}
		}}
	}
	for _, q := range c.asked { // one at most
		if q.m.Kind == Enter {
			c.tell(q.m)
		}
	}
	for id := range c.exports {
		c.tell(Message{Kind: Export, ID: id})
	}
	for word, id := range c.words {
		c.tell(Message{Kind: Export, ID: id, Text: word})
	}
	for node := range c.met {
		c.tell(Message{Kind: Met, Addr: ethertype.Addr{MAC: node}})
	}
	for t, addr := range c.tickets {
		c.tell(Message{Kind: Shown, Ticket: t, Addr: addr})
	}
	for _, q := range c.asked {
		if q.m.Kind != Enter {
			c.tell(q.m)
		}
	}
	return c.conn != nil
}

// tell sends a message if there is a daemon. A daemon without room for it counts as hung: the next
// connection repeats everything. The caller must hold the lock.
func (c *Client) tell(m Message) {
	if c.conn == nil {
		return
	}
	if err := WriteNow(c.conn, m.Append(make([]byte, 0, MaxMessage))); err != nil {
		c.lose(c.conn)
	}
}

// WriteNow writes a message and never waits for room.
func WriteNow(conn *net.UnixConn, b []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		return true
	}); e != nil {
		return e
	}
	return err
}

// lose ends a connection. The caller must hold the lock.
func (c *Client) lose(conn *net.UnixConn) {
	conn.Close()
	if c.conn == conn {
		c.conn = nil
	}
}

// ask asks the daemon a question, and returns its number.
func (c *Client) ask(m Message, answer func(Message)) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	m.Seq = c.seq
	c.asked[m.Seq] = &question{m, answer}
	c.tell(m)
	return m.Seq
}

// forget withdraws a question, and reports whether it had no answer yet.
func (c *Client) forget(seq uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.asked[seq]
	if delete(c.asked, seq); open {
		c.tell(Message{Kind: Forget, Seq: seq})
	}
	return open
}

// Enter implements Directory. It waits for the daemon's answer.
func (c *Client) Enter(self provider.Identity) error {
	answer := make(chan Message, 1)
	seq := c.ask(Message{Kind: Enter, Self: self, Text: c.scope}, func(m Message) { answer <- m })
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case m := <-answer:
		if m.Kind == Refused {
			return fmt.Errorf("%w: %s", ErrTaken, m.Text)
		}
	case <-late.C:
		c.forget(seq)
		return fmt.Errorf("the daemon at %s does not answer for %v", c.socket, answerTime)
	}
	return nil
}

// Export implements Directory.
func (c *Client) Export(id uint32, word string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if word == "" {
		c.exports[id] = struct{}{}
	} else {
		c.words[word] = id
	}
	c.tell(Message{Kind: Export, ID: id, Text: word})
	return nil
}

// Unexport implements Directory.
func (c *Client) Unexport(id uint32, word string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if word == "" {
		delete(c.exports, id)
	} else {
		delete(c.words, word)
	}
	c.tell(Message{Kind: Unexport, ID: id, Text: word})
}

// Match implements Directory. While there is no daemon it waits for one.
func (c *Client) Match(ctx context.Context, name Name) (Found, error) {
	answer := make(chan Message, 1)
	m := Message{Kind: Match, ID: name.ID, Addr: ethertype.Addr{MAC: name.Node}, Text: name.Word}
	m.Self.Process = name.Process
	seq := c.ask(m, func(m Message) { answer <- m })
	var err error
	select {
	case m = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.ended:
		err = provider.ErrClosed
	}
	if err != nil {
		if c.forget(seq) {
			return Found{}, err
		}
		m = <-answer // the answer has just arrived
	}
	if m.Kind != Matched {
		return Found{}, fmt.Errorf("the daemon at %s: %s", c.socket, m.Text)
	}
	return Found{Addr: m.Addr, Ticket: m.Ticket}, nil
}

// Prove implements Directory.
func (c *Client) Prove(t provider.Ticket, from provider.Identity, answer func(uid uint32, proven bool)) {
	var late *time.Timer
	var begun sync.Mutex // until late is set
	begun.Lock()
	defer begun.Unlock()
	seq := c.ask(Message{Kind: Prove, Ticket: t, Self: from}, func(m Message) {
		begun.Lock()
		late.Stop()
		begun.Unlock()
		answer(m.UID, m.Kind == Proven && m.Yes)
	})
	late = time.AfterFunc(proveTime, func() {
		if c.forget(seq) {
			answer(0, false)
		}
	})
}

// Spent implements Directory.
func (c *Client) Spent(t provider.Ticket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ours := c.tickets[t]; ours {
		delete(c.tickets, t)
		c.tell(Message{Kind: Spent, Ticket: t})
	}
}

// Met implements Directory.
func (c *Client) Met(node ethertype.MAC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.met[node]; !known {
		c.met[node] = struct{}{}
		c.tell(Message{Kind: Met, Addr: ethertype.Addr{MAC: node}})
	}
}

// OnDeath implements Directory.
func (c *Client) OnDeath(f func(addr ethertype.Addr, incarnation uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDeath = f
}

// Close implements Directory.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.tell(Message{Kind: Leave})
	c.closed = true
	close(c.ended)
	if c.conn != nil {
		c.lose(c.conn)
	}
	c.mu.Unlock()
}

// NewTicket returns a random ticket.
func NewTicket() (t provider.Ticket) {
	_, _ = rand.Read(t[:]) // it never fails
	return t
}
