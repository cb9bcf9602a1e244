package shm

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"golang.org/x/sys/unix"
)

var _ optional.Sharer = (*Link)(nil)

// ErrNoMemory says that this process could not make shared memory, or could not take what
// another one has made. That other process is there.
var ErrNoMemory = errors.New("shm: this process cannot share memory")

// remedies are what a person can do about the errors of the kernel.
var remedies = map[unix.Errno]string{
	unix.EMFILE:       "too many of its files are open: raise the limit, ulimit -n",
	unix.ENFILE:       "too many files are open on this host: sysctl fs.file-max",
	unix.EFBIG:        "its limit of the size of files is too small: raise it, ulimit -f",
	unix.ENOMEM:       "it has no memory left: see ulimit -v, free -m, and the memory limit of its container",
	unix.ENOSPC:       "the host has no shared memory left: see free -m, and the memory limit of its container",
	unix.ETOOMANYREFS: "too many descriptors are on their way: raise the limit, ulimit -n",
}

// OwnFault wraps ErrNoMemory around an error that comes from limits of this process or of its
// host, and adds what a person can do about it. It returns other errors as they are.
func OwnFault(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) || remedies[errno] == "" || errors.Is(err, ErrNoMemory) {
		return err
	}
	return fmt.Errorf("%w: %w: %s", ErrNoMemory, err, remedies[errno])
}

// tried notes how an attempt to share memory has ended: by success, by an error of this
// process's own, or because of the other one, which says nothing.
func (l *Link) tried(err error) {
	if err == nil || errors.Is(err, ErrNoMemory) {
		l.mu.Lock()
		l.trouble = err
		l.mu.Unlock()
	}
}

// ShareTrouble implements optional.Sharer.
func (l *Link) ShareTrouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// Try makes shared memory as a link does, and gives it back.
func Try() error {
	mine, theirs, err := streamPair()
	if err != nil {
		return OwnFault(err)
	}
	mine.Close()
	unix.Close(theirs)
	fd, err := newFile(DefaultRing)
	if err != nil {
		return OwnFault(err)
	}
	defer unix.Close(fd)
	_, err = mapFile(fd, DefaultRing)
	return OwnFault(err)
}
