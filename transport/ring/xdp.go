package ring

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/afpacket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/internal/xsk"
	"golang.org/x/sys/unix"
)

// patienceXDP is how long Open waits with On for a queue that is in use, because the
// kernel frees the queue of a closed socket late: in the background, and under the lock that every
// change of an interface takes.
const patienceXDP = 2 * time.Second

// express is the sender's AF_XDP socket, if it has one. With either socket the driver has
// the frames when the system call returns. So a link may use one for a batch and the other
// for the next, and frames stay in order.
type express struct {
	sock *xsk.Socket
	// The longest frames that go this way, in bytes: in batches, or gathered
	// from several parts; and as single frames in one piece. 0: none.
	batch, single int
}

// openXDP decides whether frames go through AF_XDP, and which.
func (l *Link) openXDP(cfg *Config) error {
	t, limit := &l.tx, min(l.info.MTU+ethertype.EthernetSize, xsk.MaxFrame)
	switch {
	case cfg.XDP == Off, cfg.Agent != "" && cfg.XDP == Auto:
		return nil
	case cfg.Agent != "":
		return fmt.Errorf("%w: AF_XDP on %s: the agent gives no such sockets; choose XDP auto or off", transport.ErrPermission, l.station.Name)
	case cfg.XDP == On:
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
// all that are valid, or none. A batch with a frame that is too long goes through the
// packet socket as a whole, in one system call.
func (e *express) fit(frames []transport.Frame, limit int) (n int) {
	longest := e.batch
	if len(frames) == 1 && len(frames[0].Body) == 0 {
		longest = e.single
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
		l.count.TxCalls.Add(1)
		l.count.TxFrames.Add(uint64(took))
		l.count.TxBytes.Add(uint64(octets))
		l.count.TxXDP.Add(uint64(took))
	}
	return took
}
