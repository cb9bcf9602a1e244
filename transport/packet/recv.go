package packet

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// receiving is the state of Recv; see sending.
type receiving struct {
	call    func(fd uintptr)
	buffers [transport.MaxBatch][]byte
	views   [][]byte
	n       int
}

// init makes the buffers one byte longer than a frame with two VLAN tags. A
// frame that fills a buffer has been truncated.
func (r *receiving) init(mtu int, call func(uintptr)) {
	r.call = call
	size := mtu + ethertype.EthernetSize + 8 + 1
	slab := make([]byte, size*len(r.buffers))
	for i := range r.buffers {
		r.buffers[i] = slab[i*size : (i+1)*size : (i+1)*size]
	}
}

// Recv implements transport.Link.
func (l *socket) Recv(views [][]byte) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	defer l.gate.Leave()
	r := &l.recv
	r.views, r.n = views[:min(len(views), transport.MaxBatch)], 0
	if err := l.raw.Control(r.call); err != nil {
		return 0, transport.ErrClosed
	}
	r.views = nil
	return r.n, nil
}

func (l *socket) recvAll(fd uintptr) {
	r := &l.recv
	for r.n < len(r.views) {
		b := r.buffers[r.n]
		n, err := unix.Read(int(fd), b)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return // no frame; Send and Wait report an error of the interface
		}
		l.count.RxCalls.Add(1)
		if n == len(b) {
			l.count.RxTruncated.Add(1)
			continue
		}
		l.count.RxFrames.Add(1)
		l.count.RxBytes.Add(uint64(n))
		r.views[r.n] = b[:n:n]
		r.n++
	}
}

// Ready implements transport.Link. It makes a system call.
func (l *socket) Ready() bool {
	if !l.gate.Enter() {
		return false
	}
	defer l.gate.Leave()
	l.readyMu.Lock()
	defer l.readyMu.Unlock()
	return l.raw.Control(l.ready.call) == nil && l.ready.events != 0
}

// poll checks, without waiting, whether a socket is readable or has an error.
type poll struct {
	call   func(fd uintptr)
	fds    [1]unix.PollFd
	now    unix.Timespec // zero
	events int16         // events that were found
}

func (p *poll) look(fd uintptr) {
	p.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	p.events = 0
	if n, err := unix.Ppoll(p.fds[:], &p.now, nil); err == nil && n > 0 {
		p.events = p.fds[0].Revents
	}
}
