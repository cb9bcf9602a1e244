package shm_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
)

// squatter is the block of ports that these tests are about.
const squatter = 60

var squatted = transport.PortRange{Lo: squatter << 10, Hi: squatter<<10 + 9}

// TestPosing: a user who has the abstract name of a block is not taken for root's link that opens with
// that block: not by links that knew him before, and let in all users, nor by later calls.
func TestPosing(t *testing.T) {
	needRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := open(t, shm.Config{AnyUser: true})
	var s *stranger
	if err := vethtest.As(4001, func() error {
		s = newStranger(t, a, squatter)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.uid = 4001
	c := s.call(a, s.file())
	if s.answer(c); !c.answered {
		t.Fatal("before root's link is there, the user was refused")
	}
	until(t, "the caller", func() bool { return a.Peers() == 1 })
	b := open(t, shm.Config{Address: shm.HostMAC, Ports: squatted, AnyUser: true})
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	departure(t, a, &why)
	pump(t, a, b, 1, frame(a, b, "for root's link"))
	pump(t, b, a, 1, frame(b, a, "from root's link"))
	c = s.call(a, s.file())
	if s.answer(c); c.answered {
		t.Error("a call from the abstract name was answered, and root's link has the block")
	}
}

// TestForgedFile: the kernel tells the file of a caller's socket as the caller has named it, and another
// mount namespace has other files of that name. The caller must be the user who owns the file.
func TestForgedFile(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	a := open(t, shm.Config{AnyUser: true, Directory: dir})
	s := newStranger(t, a, squatter) // as if it had another mount namespace
	if err := os.Remove(filepath.Join(dir, "60")); err != nil {
		t.Fatal(err)
	}
	open(t, shm.Config{AnyUser: true, Directory: dir, Ports: squatted})
	s.uid = 4001
	c := s.call(a, s.file())
	if s.answer(c); c.answered {
		t.Error("a call of another user than the file's was answered")
	}
}
