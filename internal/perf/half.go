package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// sampleTimeout is the time limit of opening a connection over NICs, and of the work before and after
// a sample.
const sampleTimeout = 5 * time.Second

// burstTimeout is the additional time limit of a sample for each burst in it. In a burst the halves
// wait for each other. If more programs run than there are processors, each wait may last until the
// kernel has run another program, some milliseconds.
const burstTimeout = 20 * time.Millisecond

// cardTimeout is the time limit of opening a connection over cards. Each attempt has new cards, which first find each
// other and map: the first map begins after up to a second. If a card gets no processor while the other one maps, the
// map misses it, and the next one follows half a second later.
const cardTimeout = 20 * time.Second

// openTimeout returns the time limit of opening a connection.
func openTimeout(link string) time.Duration {
	if OnCard(link) {
		return cardTimeout
	}
	return sampleTimeout
}

// attemptTimeout returns the time limit of opening a connection and taking a sample on it.
func attemptTimeout(c Case, sample time.Duration) time.Duration {
	return timeoutOf(c.Test, sample) + openTimeout(c.Link) - sampleTimeout
}

// timeoutOf returns the time limit of a sample that should take the time sample. The number of
// messages in the sample comes from shorter runs before it. On a machine with other users, the
// sample may take longer than those runs predict.
func timeoutOf(test string, sample time.Duration) time.Duration {
	if test == LogP {
		return sampleTimeout + time.Duration(sweepBursts())*burstTimeout
	}
	return sampleTimeout + 4*sample
}

// Half is one end of a measurement: a process with an interface on the link. Only one goroutine may
// use it.
type Half struct {
	// Interface is the name of the measured interface.
	Interface string
	// IP is the interface's address. Without one, the stacks tcp and udp cannot be measured.
	IP netip.Addr
	// Watch, if not nil, is called with each object that a connection opens. The function that it
	// returns is called before the object closes.
	Watch Watcher
	// Wrap, if not nil, replaces every measured link by its result.
	Wrap func(transport.Link) transport.Link

	// Libtirpc is the path of the program that BuildLibtirpc has built, or "".
	Libtirpc string
	// UCX is the program that FindUCX has found, or "".
	UCX string
	// Card is the command line of a process that serves a card, to which the interface and the
	// control program are added; without it the link card-shared cannot be measured.
	Card []string

	line   func() float64 // LineTime
	server bool
	ctl    *control
	failed *peerError // error that the other half sent instead of an answer
}

// Opened is the object that a connection has opened: a NIC, and possibly one object that uses it
// (an MPLite communicator, an AM-II node, a VMMC process, a Split-C world or a server of remote
// procedures). The other fields are nil.
type Opened struct {
	NIC     *vipl.NIC
	Comm    *mplite.Comm
	Node    *endpoint.Node
	Process *vmmc.Process
	Server  *vrpc.Server
	World   *splitc.World
}

// Watcher is called with what a connection has opened.
type Watcher func(Opened) (forget func())

// watch calls h.Watch, if there is one.
func (h *Half) watch(o Opened) (forget func()) { return watch(h.Watch, o) }

// watch calls w, if there is one.
func watch(w Watcher, o Opened) (forget func()) {
	if w == nil {
		return func() {}
	}
	return w(o)
}

// NewHalf returns the half that talks to the other one over rw. Both halves may write at the same
// time, so rw must buffer a few lines.
func NewHalf(iface string, ip netip.Addr, rw io.ReadWriter) *Half {
	return &Half{Interface: iface, IP: ip, line: LineTime, ctl: newControl(rw)}
}

// Exchange sends text to the other half, and returns the text that the other half has sent. Stacks
// exchange addresses with it while they open.
func (h *Half) Exchange(text string) (string, error) {
	if err := h.ctl.send(message{Op: opText, Text: text}); err != nil {
		return "", err
	}
	m, err := h.ctl.recv()
	if err != nil {
		return "", err
	}
	switch m.Op {
	case opText:
		return m.Text, nil
	case opFail:
		h.failed = m.failure()
		return "", h.failed
	}
	return "", unexpected(m)
}

func unexpected(m message) error {
	return fmt.Errorf("%w: unexpected %q (do both halves have the same version?)", errControl, m.Op)
}

// openConn opens a connection for c on this half, and returns an error if either
// half could not. Both halves run it at the same time.
func (h *Half) openConn(ctx context.Context, c Case) (Conn, error) {
	h.failed = nil
	conn, err := h.openStack(ctx, c)
	if sendErr := h.ctl.sendResult(err, Counters{}); sendErr != nil {
		err = errors.Join(err, sendErr)
	} else if h.failed == nil {
		_, resultErr := h.result()
		err = bothHalves(err, resultErr)
	}
	if err != nil && conn != nil {
		conn.Close()
		conn = nil
	}
	return conn, err
}

func (h *Half) openStack(ctx context.Context, c Case) (Conn, error) {
	s, err := stackByName(c.Stack)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, h, c)
}

// result waits for the other half's opDone or opFail. It ignores text that the other half sent
// before it knew that this half had failed.
func (h *Half) result() (Counters, error) {
	for {
		m, err := h.ctl.recv()
		switch {
		case err != nil:
			return Counters{}, err
		case m.Op == opDone:
			return m.Counters, nil
		case m.Op == opFail:
			return Counters{}, m.failure()
		case m.Op != opText:
			return Counters{}, unexpected(m)
		}
	}
}

// Serve executes the commands of the client half until the command to quit. It returns an error
// when the control channel breaks. Failures in a sample are reported to the client.
func (h *Half) Serve(ctx context.Context) error {
	h.server = true
	var conn Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for ctx.Err() == nil {
		m, err := h.ctl.recv()
		if err != nil {
			return err
		}
		switch {
		case m.Op == opQuit:
			return nil
		case m.Op == opOpen && m.Case != nil && conn == nil:
			conn, _ = h.serveOpen(ctx, *m.Case)
		case m.Op == opRun && m.Case != nil && conn != nil:
			err = h.serveRun(ctx, conn, m)
		case m.Op == opClose:
			err = h.serveClose(conn)
			conn = nil
		default:
			err = unexpected(m)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (h *Half) serveOpen(ctx context.Context, c Case) (Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout(c.Link))
	defer cancel()
	return h.openConn(ctx, c)
}

func (h *Half) serveRun(ctx context.Context, conn Conn, m message) error {
	ctx, cancel := context.WithTimeout(ctx, timeoutOf(m.Case.Test, m.Sample))
	defer cancel()
	err := conn.Echo(ctx, m.Warm)
	used := processorTime()
	if err == nil {
		if timed(m.Case.Test) {
			err = conn.Echo(ctx, m.Count)
		} else {
			err = conn.Sink(ctx, m.Count)
		}
	}
	counters := conn.Counters()
	counters.CPU = processorTime() - used
	return h.ctl.sendResult(err, counters)
}

func (h *Half) serveClose(conn Conn) error {
	var err error
	if conn != nil {
		err = conn.Close()
	}
	return h.ctl.sendResult(err, Counters{})
}
