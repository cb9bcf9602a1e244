package packet

import (
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// sending is the state of Send. Its call is created once, because a function
// literal that is created for every call allocates.
type sending struct {
	call    func(fd uintptr)
	frames  []transport.Frame
	scratch []byte
	limit   int
	done    int
	err     error
}

func (s *sending) init(mtu int, call func(uintptr)) {
	s.call = call
	s.limit = mtu + ethertype.EthernetSize
	s.scratch = make([]byte, 0, s.limit)
}

// Send implements transport.Link. It copies each frame into one piece.
func (l *socket) Send(frames []transport.Frame) (n int, err error) {
	if !l.gate.Enter() {
		return 0, transport.ErrClosed
	}
	defer l.gate.Leave()
	s := &l.send
	s.frames, s.done, s.err = frames[:min(len(frames), transport.MaxBatch)], 0, nil
	if err := l.raw.Control(s.call); err != nil {
		return 0, transport.ErrClosed
	}
	s.frames = nil
	return s.done, s.err
}

func (l *socket) sendAll(fd uintptr) {
	s := &l.send
	for s.done < len(s.frames) {
		f := &s.frames[s.done]
		if s.err = driver.CheckFrame(f, s.limit); s.err != nil {
			return
		}
		b := f.AppendTo(s.scratch[:0])
		_, err := unix.Write(int(fd), b)
		l.count.TxCalls.Add(1)
		errno, _ := err.(unix.Errno)
		verdict, stop := driver.SendVerdict(errno)
		switch verdict {
		case driver.Taken:
			l.count.TxFrames.Add(1)
			l.count.TxBytes.Add(uint64(len(b)))
			s.done++
		case driver.Full:
			l.count.TxFull.Add(1)
			return
		case driver.Refuse:
			l.count.TxDrops.Add(1)
			s.done++
		case driver.Stop:
			s.err = stop
			return
		}
	}
}
