package vipl_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// syncedLog collects what is logged.
type syncedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// scarcities are limits of a process that keep it from making shared memory. Each impose reaches
// one until lift is called.
var scarcities = map[string]struct {
	errno  unix.Errno
	impose func(t *testing.T) (lift func())
}{
	"ulimit -f": {unix.EFBIG, func(t *testing.T) func() { return limit(t, unix.RLIMIT_FSIZE, shm.DefaultRing) }}, // one ring of two
	"ulimit -n": {unix.EMFILE, useUpDescriptors},
}

// limit sets a resource limit.
func limit(t *testing.T, resource int, cur uint64) (lift func()) {
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
func useUpDescriptors(t *testing.T) (lift func()) {
	t.Helper()
	raise := limit(t, unix.RLIMIT_NOFILE, 256)
	var fds []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() {
		raise()
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// TestShareTrouble: a process that can make no shared memory says so, with the remedy, where
// it would say that a peer does not answer. The log has it once.
func TestShareTrouble(t *testing.T) {
	for remedy, s := range scarcities {
		t.Run(remedy, func(t *testing.T) { shareTrouble(t, remedy, s.errno, s.impose) })
	}
}

func shareTrouble(t *testing.T, remedy string, errno unix.Errno, impose func(t *testing.T) (lift func())) {
	var lines syncedLog
	open := func() *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	a, b := open(), open()
	if err := b.Advertise("b", b.Addr()); err != nil {
		t.Fatal(err)
	}
	l, err := b.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	lift := sync.OnceFunc(impose(t))
	defer lift()
	connect := func() error {
		v, err := a.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		ctx, cancel := a.WithTimeout(bg, 200*time.Millisecond)
		defer cancel()
		return v.Connect(ctx, l.Addr(), nil)
	}
	lookup := func(d time.Duration) error {
		ctx, cancel := a.WithTimeout(bg, d)
		defer cancel()
		_, err := a.Lookup(ctx, "b")
		return err
	}
	for what, err := range map[string]error{"Lookup": lookup(200 * time.Millisecond), "Connect": connect()} {
		if !errors.Is(err, shm.ErrNoMemory) || !errors.Is(err, errno) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v; want ErrNoMemory and the remedy", what, err)
		}
	}
	if got := a.Obstacle(); !strings.Contains(got, remedy) {
		t.Errorf("Obstacle() = %q", got)
	}
	if err := shm.Try(); !errors.Is(err, shm.ErrNoMemory) {
		t.Errorf("Try: %v", err)
	}
	lift()
	if err := lookup(time.Minute); err != nil {
		t.Errorf("with the limit as it was: %v", err)
	}
	if got := a.Obstacle(); got != "" {
		t.Errorf("with the limit as it was: Obstacle() = %q", got)
	}
	a.Close()
	b.Close()
	if n := strings.Count(lines.b.String(), remedy); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, lines.b.String())
	}
}
