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

// patienceXDP is how long Open waits, with On, for a queue that is in use. The kernel frees the
// queue of a closed socket late: in the background, and under the lock that every change of an
// interface takes.
const patienceXDP = 2 * time.Second

// express is the optional AF_XDP socket of a sender. With either socket the driver has the frames
// when the system call returns, so frames stay in order even if the link alternates between the
// sockets.
type express struct {
	sock *xsk.Socket
	// The longest frames, in bytes, that the socket sends: batch for frames in batches or in
	// several parts, single for a single frame in one part. 0 means none.
	batch, single int
}

// openXDP decides whether the link uses AF_XDP, and for which frames.
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
			return nil //nolint:nilerr // the packet socket serves, and Config.XDP does not require more
		}
		t.express = t.choose(sock, l.info, limit)
	}
	if t.express.sock != nil {
		l.info.Driver = "ring+xdp"
	}
	return nil
}

// errorXDP explains why the link cannot have an AF_XDP socket.
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

// fit returns how many of the frames, from the first on, to send through AF_XDP: all valid ones, or
// none. If one frame of a batch is too long, the whole batch goes through the packet socket, in one
// system call.
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

// sendXDP sends frames through AF_XDP if they are eligible, and returns how many it took. The
// packet socket sends the next frame and reports its error.
func (l *Link) sendXDP(frames []transport.Frame, limit int) int {
	n := l.tx.express.fit(frames, limit)
	if n == 0 {
		return 0
	}
	took, nbytes := l.tx.express.sock.Send(frames[:n])
	if took > 0 {
		l.count.TxCalls.Add(1)
		l.count.TxFrames.Add(uint64(took))
		l.count.TxBytes.Add(uint64(nbytes))
		l.count.TxXDP.Add(uint64(took))
	}
	return took
}
