package ring

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/afpacket"
	"github.com/bobnet-go/bobnet/transport/internal/xsk"
	"golang.org/x/sys/unix"
)

// XDP says whether frames of up to 4096 bytes are sent through an AF_XDP
// socket instead of a packet socket.
//
// In batches that costs the sender a sixth (full frames at MTU 1500) to a
// quarter (small ones) less, because what else happens to a frame on its way is
// left out: such frames pass by the traffic control layer, and tcpdump does not
// see them where they are sent. A frame alone and in one piece gains nothing.
// The socket needs 128 or 256 KiB of locked memory and one of the interface's
// queues, which only one can have: one link on most virtual interfaces.
type XDP uint8

// The choices. Which way a link sends is in its Info().Driver ("ring" or
// "ring+xdp") and in its Stats().TxXDP.
const (
	// XDPAuto uses AF_XDP for those frames for which Open measures it to be
	// faster, if a queue is free and the interface has no queueing discipline
	// at the time, or QdiscBypass is set. (One that is added later, such as
	// netem, is passed by: choose XDPOff before.)
	//
	// Measuring takes about a millisecond, more on a busy machine, and sends
	// up to 800 frames addressed to the interface's own MAC. The station,
	// bridge or switch at the other end drops them; its counters of the
	// interface show them.
	XDPAuto XDP = iota
	// XDPOff never uses AF_XDP.
	XDPOff
	// XDPOn uses AF_XDP for every frame that fits, and implies QdiscBypass for
	// the others, so that none waits in a queue while later ones pass by. Open
	// fails when there is no AF_XDP to be had.
	XDPOn
)

var xdpNames = [...]string{"auto", "off", "on"}

// String returns the name that ParseXDP understands.
func (x XDP) String() string {
	if int(x) >= len(xdpNames) {
		return fmt.Sprintf("XDP(%d)", uint8(x))
	}
	return xdpNames[x]
}

// ParseXDP returns the choice of the name auto, off or on. The error wraps
// EINVAL.
func ParseXDP(name string) (XDP, error) {
	for x, n := range xdpNames {
		if n == name {
			return XDP(x), nil
		}
	}
	return 0, fmt.Errorf("transport: XDP %q: %w: want one of %v", name, unix.EINVAL, xdpNames)
}

// patienceXDP is how long XDPOn waits for a queue that was in use just now.
const patienceXDP = 200 * time.Millisecond

// express is the sender's AF_XDP socket, if it has one. Both ways of sending
// have handed their frames to the driver when the system call returns, so a
// link may change between them from one batch to the next and frames stay in
// order.
type express struct {
	sock *xsk.Socket
	// The longest frames that go this way, in bytes: in batches, or gathered
	// from several parts; and alone and in one piece. 0: none.
	batch, alone int
}

// openXDP decides whether frames go through AF_XDP, and which.
func (l *Link) openXDP(cfg *Config) error {
	t, limit := &l.tx, min(l.info.MTU+ethertype.EthernetSize, xsk.MaxFrame)
	switch cfg.XDP {
	case XDPOff:
		return nil
	case XDPOn:
		sock, err := xsk.Open(l.station.Index, limit, patienceXDP)
		if err != nil {
			return errorXDP(l.station, limit, err)
		}
		t.express = express{sock, limit, limit}
	default:
		if !cfg.QdiscBypass && queued(l.station.Index) {
			return nil
		}
		sock, err := xsk.Open(l.station.Index, limit, 0)
		if err != nil {
			return nil //nolint:nilerr // the packet socket serves, and nobody asked for more
		}
		t.express = t.choose(sock, l.info, limit)
	}
	if t.express.sock != nil {
		l.info.Driver = "ring+xdp"
	}
	return nil
}

// errorXDP explains why there is no AF_XDP socket.
func errorXDP(s *afpacket.Station, limit int, err error) error {
	const advice = "choose XDP auto or off"
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("transport: AF_XDP on %s: %w: other AF_XDP sockets have all its queues, maybe those of another link; close them, or %s",
			s.Name, err, advice)
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENOPROTOOPT):
		return fmt.Errorf("transport: AF_XDP: %w: the kernel lacks it (CONFIG_XDP_SOCKETS, Linux 5.4); %s", err, advice)
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("transport: AF_XDP: %w: it needs %d KiB of locked memory; raise the limit (ulimit -l), or %s",
			err, xsk.Memory(limit)>>10, advice)
	}
	return s.OpenError("AF_XDP", err)
}

// close closes the socket, if there is one.
func (e *express) close() {
	if e.sock != nil {
		e.sock.Close()
		e.sock = nil
	}
}

// fit returns how many of frames, from the first on, are to go through AF_XDP:
// all that are valid, or none. A batch in which a frame is too long goes the
// other way as a whole, in one system call.
func (e *express) fit(frames []transport.Frame, limit int) (n int) {
	longest := e.batch
	if len(frames) == 1 && len(frames[0].Body) == 0 {
		longest = e.alone
	}
	for ; n < len(frames); n++ {
		size := frames[n].Len()
		switch {
		case size > limit || len(frames[n].Body) > transport.MaxBody:
			return n
		case size > longest:
			return 0
		}
	}
	return n
}

// sendXDP sends frames through AF_XDP, if that is their way, and returns how
// many it took. The packet socket gets the next one and says what is wrong.
func (l *Link) sendXDP(frames []transport.Frame, limit int) int {
	n := l.tx.express.fit(frames, limit)
	if n == 0 {
		return 0
	}
	took, octets := l.tx.express.sock.Send(frames[:n])
	if took > 0 {
		l.cnt.TxCalls.Add(1)
		l.cnt.TxFrames.Add(uint64(took))
		l.cnt.TxBytes.Add(uint64(octets))
		l.cnt.TxXDP.Add(uint64(took))
	}
	return took
}
