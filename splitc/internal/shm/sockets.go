package shm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	share "github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"golang.org/x/sys/unix"
)

// ErrUser is wrapped by the error of ranks of one host that belong to different users.
var ErrUser = errors.New("it belongs to another user, who may not share memory (run all ranks of a host as one user, or use the layer am)")

// sockets is the meeting of processes of one host. Each listens at a Unix socket with a name in the
// abstract name space, which disappears with the process. It passes its file to each neighbour over
// a connection. The kernel lists the names, and any user can bind one. So a name does not reveal
// the names of other ranks or of the job's next layers. The kernel reports the user of the process
// at the other end of a connection, and files are exchanged only with processes of the same user.
type sockets struct {
	secret  string
	fd      int   // the listening socket; -1 after the meeting
	callers []int // connections without a message yet
}

// mostCallers is the most connections that may wait for their caller's message, in addition to
// those of neighbours.
const mostCallers = 64

// secret is the base of the names of all ranks' sockets. The job's processes know it, and so does a
// station that observes the segment.
func (l *Layer) secret() string {
	at := l.place(0)
	return fmt.Sprintf("%016x/%d", at.nonce, at.generation)
}

func newSockets(secret string, rank int) (*sockets, error) {
	s := &sockets{secret: secret, fd: -1}
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	s.fd = fd
	if err = unix.Bind(fd, s.address(rank)); err == nil {
		err = unix.Listen(fd, mostCallers)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("socket of rank %d: %w", rank, err)
	}
	return s, nil
}

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	return fd, share.OwnFault(os.NewSyscallError("socket", err))
}

func (s *sockets) address(rank int) *unix.SockaddrUnix {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", s.secret, rank))
	return &unix.SockaddrUnix{Name: fmt.Sprintf("@bobnet-splitc/%x", sum[:16])}
}

func (s *sockets) close() {
	passfd.Promptly(func() {
		for _, fd := range s.callers {
			unix.Close(fd)
		}
		if s.fd >= 0 {
			unix.Close(s.fd)
		}
	})
	s.callers, s.fd = nil, -1
}

// all passes this rank's file to all neighbours, and receives theirs.
func (s *sockets) all(ctx context.Context, l *Layer) error {
	defer s.close()
	unsent := l.others()
	left := len(unsent)
	l.cfg.Watch.Begin()
	for left > 0 || len(unsent) > 0 {
		later := unsent[:0]
		for _, rank := range unsent {
			err := s.give(rank, l.cfg.Rank, l.own.fd)
			if errors.Is(err, unix.EAGAIN) {
				later = append(later, rank)
			} else if err != nil {
				return fmt.Errorf("rank %d is on this host, but does not accept this rank's memory: %w", rank, err)
			}
		}
		unsent = later
		came, err := s.receiveFiles(l)
		if err != nil {
			return err
		}
		if left -= came; came > 0 {
			continue
		}
		if err := l.far.Wait(l.cfg.Watch.Slice()); err != nil {
			return err
		}
		if err := l.cfg.Watch.Check(ctx); err != nil {
			return fmt.Errorf("waiting for the memory of %d other ranks of this host: %w", left, err)
		}
	}
	return nil
}

// give passes the file of rank me to a neighbour.
func (s *sockets) give(rank, me, file int) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, s.address(rank)); err != nil {
		return err
	}
	if user, err := userOf(fd); err != nil {
		return err
	} else if user != os.Geteuid() {
		return fmt.Errorf("%w: it runs as user %d, this rank as user %d", ErrUser, user, os.Geteuid())
	}
	err = unix.Sendmsg(fd, binary.LittleEndian.AppendUint32(nil, uint32(me)), unix.UnixRights(file), nil, unix.MSG_NOSIGNAL)
	return share.OwnFault(err)
}

// userOf returns the user of the process at the other end of a connection.
func userOf(fd int) (int, error) {
	who, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, os.NewSyscallError("getsockopt", err)
	}
	return int(who.Uid), nil
}

// receiveFiles receives the files that have arrived, and returns the number of neighbours that have joined.
func (s *sockets) receiveFiles(l *Layer) (joined int, err error) {
	if err := s.accept(l); err != nil {
		return 0, err
	}
	silent := s.callers[:0]
	for _, fd := range s.callers {
		rank, file, err := receive(fd)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			silent = append(silent, fd)
			continue
		}
		passfd.Promptly(func() { unix.Close(fd) })
		if errors.Is(err, share.ErrNoMemory) { // the neighbour has passed its file, and does not pass it again
			l.err = errors.Join(l.err, fmt.Errorf("take the memory of rank %d: %w", rank, err))
		} else if err != nil || file < 0 || rank >= l.cfg.Procs || rank == l.cfg.Rank || l.near[rank] != nil || l.hosts[rank] != l.hosts[l.cfg.Rank] {
			l.stats.Strays++
		} else if mem, err := mapMemory(file, l.cfg.HeapSize, l.cfg.Procs); err != nil {
			l.blame(&neighbour{rank: rank}, err)
		} else {
			l.join(rank, mem)
			joined++
		}
		if file >= 0 {
			passfd.Close(uint32(os.Geteuid()), file) // accept has admitted no other user
		}
	}
	s.callers = silent
	return joined, l.err
}

// accept accepts the connections that have arrived. It closes those of other users.
func (s *sockets) accept(l *Layer) error {
	for {
		fd, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case err != nil:
			return share.OwnFault(os.NewSyscallError("accept", err))
		}
		if user, err := userOf(fd); err != nil || user != os.Geteuid() || len(s.callers) >= mostCallers+l.cfg.Procs {
			l.stats.Strays++
			passfd.Promptly(func() { unix.Close(fd) })
			continue
		}
		s.callers = append(s.callers, fd)
	}
}

// receive returns the rank that a caller claims to be, and its file, or -1 if it has none.
func receive(fd int) (rank, file int, err error) {
	uid := uint32(os.Geteuid())
	var text [4]byte
	m, err := passfd.ReceiveNow(fd, uid, text[:])
	if err != nil {
		return 0, -1, err
	}
	if m.N != len(text) || len(m.FDs) > 1 {
		passfd.Close(uid, m.FDs...)
		return 0, -1, unix.EBADMSG
	}
	rank, file = int(binary.LittleEndian.Uint32(text[:])), -1
	switch {
	case m.Cut:
		passfd.Close(uid, m.FDs...)
		err = share.OwnFault(os.NewSyscallError("recvmsg", unix.EMFILE))
	case len(m.FDs) == 1:
		file = m.FDs[0]
	}
	return rank, file, err
}
