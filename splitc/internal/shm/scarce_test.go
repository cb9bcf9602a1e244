package shm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	share "github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"golang.org/x/sys/unix"
)

// limit sets a resource limit of this process, and returns what raises it again.
func limit(t *testing.T, resource int, cur uint64) (raise func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(resource, &before); err != nil {
		t.Fatal(err)
	}
	set := func(r unix.Rlimit) {
		if err := unix.Setrlimit(resource, &r); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: cur, Max: before.Max})
	return func() { set(before) }
}

// useUpDescriptors opens files until the process may not open one more.
func useUpDescriptors(t *testing.T) (raise func()) {
	t.Helper()
	lift := limit(t, unix.RLIMIT_NOFILE, 256)
	var fds []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() {
		lift()
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// TestScarce: a rank that cannot make its heap, or cannot take a neighbour's, names the limit.
func TestScarce(t *testing.T) {
	const heap = 1 << 20
	check := func(what, remedy string, err error) {
		t.Helper()
		if !errors.Is(err, share.ErrNoMemory) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v; want ErrNoMemory and %q", what, err, remedy)
		}
	}
	raise := limit(t, unix.RLIMIT_FSIZE, heap)
	_, err := newMemory(heap, 2)
	raise()
	check("a heap beyond the limit of the size of files", "ulimit -f", err)

	raise = useUpDescriptors(t)
	_, err = newMemory(heap, 2)
	raise()
	check("a heap without a descriptor", "ulimit -n", err)

	s, err := newSockets(fmt.Sprintf("@bobnet-splitc-test/%d/scarce/", os.Getpid()), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	m, err := newMemory(heap, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.free()
	if err := s.give(0, 1, m.fd); err != nil {
		t.Fatal(err)
	}
	l := &Layer{cfg: layer.Config{Procs: 2, HeapSize: heap}, hosts: []int{0, 0}, near: make([]*neighbour, 2)}
	raise = useUpDescriptors(t)
	_, err = s.take(l)
	raise()
	check("a neighbour's connection without a descriptor", "ulimit -n", err)

	if err := s.accept(l); err != nil || len(s.callers) != 1 {
		t.Fatalf("%d connections have come: %v", len(s.callers), err)
	}
	raise = useUpDescriptors(t)
	_, _, err = receive(s.callers[0])
	raise()
	check("a neighbour's heap without a descriptor", "ulimit -n", err)
}
