package perf

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// dialAs connects to a Unix socket as another user.
func dialAs(t *testing.T, uid int, name string) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	as := func(uid int) {
		switch _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno {
		case 0:
		case unix.EINVAL:
			need.Skip(t, "a user namespace with more users than root, to connect as another user")
		default:
			t.Fatal(errno)
		}
	}
	as(uid)
	conn, err := net.Dial("unix", name)
	as(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// TestMemoryForOwnUser: a process of another user that connects first does not get the memory, and
// does not keep it from the other half.
func TestMemoryForOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to connect as another user")
	}
	name := fmt.Sprintf("@bobnet-perf-test/%d", os.Getpid())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stranger := dialAs(t, 12345, name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		fd, err := receiveMemory(ctx, name)
		if err == nil {
			unix.Close(fd)
		}
		got <- err
	}()
	fd, err := sendMemory(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	if err := <-got; err != nil {
		t.Errorf("the other half: %v", err)
	}
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	if n, k, _, _, _ := stranger.(*net.UnixConn).ReadMsgUnix(b, oob); n != 0 || k != 0 {
		t.Errorf("another user's process got %d bytes and %d bytes of control messages", n, k)
	}
}
