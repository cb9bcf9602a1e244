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

// TestShareTrouble: a process that can make no shared memory says so, with the remedy, where
// it would say that a peer does not answer. The log has it once.
func TestShareTrouble(t *testing.T) {
	var lines syncedLog
	open := func() *vipl.NIC {
		n, err := vipl.Open(&vipl.Config{Driver: "shm", Logger: slog.New(slog.NewTextHandler(&lines, nil))})
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
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: shm.DefaultRing, Max: before.Max}) // one ring of two
	defer set(before)
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
		if !errors.Is(err, shm.ErrNoMemory) || !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), "ulimit -f") {
			t.Errorf("%s: %v; want ErrNoMemory and the remedy", what, err)
		}
	}
	if got := a.Obstacle(); !strings.Contains(got, "ulimit -f") {
		t.Errorf("Obstacle() = %q", got)
	}
	if err := shm.Try(); !errors.Is(err, shm.ErrNoMemory) {
		t.Errorf("Try: %v", err)
	}
	set(before)
	if err := lookup(time.Minute); err != nil {
		t.Errorf("with the limit as it was: %v", err)
	}
	if got := a.Obstacle(); got != "" {
		t.Errorf("with the limit as it was: Obstacle() = %q", got)
	}
	a.Close()
	b.Close()
	if n := strings.Count(lines.b.String(), "ulimit -f"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, lines.b.String())
	}
}
