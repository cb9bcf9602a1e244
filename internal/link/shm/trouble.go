package shm

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/internal/link/optional"
	"golang.org/x/sys/unix"
)

var _ optional.Sharer = (*Link)(nil)

// ErrNoMemory means that this process could not create shared memory, or could not map memory from
// another process, which exists.
var ErrNoMemory = errors.New("shm: this process cannot share memory")

// remedies are the hints for kernel errors.
var remedies = map[unix.Errno]string{
	unix.EMFILE:       "too many of its files are open: raise the limit, ulimit -n",
	unix.ENFILE:       "too many files are open on this host: sysctl fs.file-max",
	unix.EFBIG:        "its limit of the size of files is too small: raise it, ulimit -f",
	unix.ENOMEM:       "it has no memory left: see ulimit -v, free -m, and the memory limit of its container",
	unix.ENOSPC:       "the host has no shared memory left: see free -m, and the memory limit of its container",
	unix.ETOOMANYREFS: "too many descriptors are on their way: raise the limit, ulimit -n",
}

// OwnFault wraps ErrNoMemory around an error that limits of this process or of its host have
// caused, and adds a hint. It returns other errors unchanged.
func OwnFault(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) || remedies[errno] == "" || errors.Is(err, ErrNoMemory) {
		return err
	}
	return fmt.Errorf("%w: %w: %s", ErrNoMemory, err, remedies[errno])
}

// tried records the result of an attempt to share memory: success, or an error of this process. An
// error of the other process changes nothing.
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

// Try creates shared memory as a link does, and frees it.
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
