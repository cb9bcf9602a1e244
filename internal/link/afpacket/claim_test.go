package afpacket

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"golang.org/x/sys/unix"
)

// The claim that the tests of this file are about: of blocks that no other test uses, on an
// interface that there is not.
const (
	claimIndex = 1 << 30
	claimType  = 0x88b5
	claimBlock = 61
	otherBlock = 62
)

// unixSocket returns a Unix socket of a type that is bound to just these bytes.
func unixSocket(t *testing.T, typ int, name string) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	var raw unix.RawSockaddrUnix
	raw.Family = unix.AF_UNIX
	for i := range len(name) {
		raw.Path[i] = int8(name[i])
	}
	// Package unix takes an @ for the NUL of an abstract name.
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&raw)), unsafe.Offsetof(raw.Path)+uintptr(len(name)))
	if errno != 0 {
		t.Fatal(errno)
	}
	return fd
}

// listening is unixSocket for a stream socket that listens.
func listening(t *testing.T, name string) (fd int) {
	t.Helper()
	fd = unixSocket(t, unix.SOCK_STREAM, name)
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
	return fd
}

// accepted returns the end that a connection to a claim has at its listener, which has ended:
// it has the listener's name, and does not hold it.
func accepted(t *testing.T, fd int) (end int) {
	t.Helper()
	c := unixSocketOf(t)
	if err := unix.Connect(c, &unix.SockaddrUnix{Name: claimName(claimIndex, claimType, claimBlock).Abstract}); err != nil {
		t.Fatal(err)
	}
	end, _, err := unix.Accept(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(end) })
	return end
}

// unixSocketOf returns a stream socket without a name.
func unixSocketOf(t *testing.T) (fd int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestCheckClaim: only the socket that the kernel has under a claim's name holds it, and none
// whose name looks the same, or is: of a file, of another type, of a longer name, of a
// connection that the claim has accepted.
func TestCheckClaim(t *testing.T) {
	t.Chdir(t.TempDir())
	nameOf := func(b int) string { return fmt.Sprintf("bobnet/%d/%04x/%d", claimIndex, claimType, b) }
	name := nameOf(claimBlock)
	if err := os.MkdirAll(filepath.Dir("@"+name), 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(b, fd int) error {
		return CheckClaim(claimIndex, claimType, driver.BlockPorts(b), []int{fd})
	}
	holder := listening(t, "\x00"+name)
	for what, fd := range map[string]int{
		"a file of this name":          listening(t, "@"+name),
		"a longer name":                listening(t, "\x00"+name+"\x00x"),
		"another block's":              listening(t, "\x00"+name+"0"),
		"datagrams of this name":       unixSocket(t, unix.SOCK_DGRAM, "\x00"+name),
		"a connection to the claim":    accepted(t, holder),
		"a socket without a name":      unixSocketOf(t),
		"a descriptor that is none":    -1,
		"packets of this name":         unixSocket(t, unix.SOCK_SEQPACKET, "\x00"+name),
		"a name that nobody can reach": unixSocket(t, unix.SOCK_STREAM, "\x00"+name+"y"),
	} {
		if err := check(claimBlock, fd); err == nil {
			t.Errorf("%s holds the claim", what)
		}
	}
	if err := check(claimBlock, holder); err != nil {
		t.Error(err)
	}
	silent := unixSocket(t, unix.SOCK_STREAM, "\x00"+nameOf(otherBlock))
	if err := check(otherBlock, silent); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a claim that does not listen: %v", err)
	}
}

// TestOwnNamespace: sockets are told from those of another network namespace, by their cookies
// and, where the kernel gives none, by the namespaces themselves.
func TestOwnNamespace(t *testing.T) {
	p := vethtest.New(t, 1500)
	var there [2]int
	err := p.In(0, func() error {
		for i, domain := range []int{unix.AF_UNIX, unix.AF_PACKET} {
			fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { unix.Close(fd) })
			there[i] = fd
			if err := errors.Join(OwnNamespace(fd), checkNamespace(unixSocketOf(t), fd)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range there {
		if err := OwnNamespace(fd); !errors.Is(err, unix.EINVAL) {
			t.Errorf("by its cookie: %v", err)
		}
		if err := checkNamespace(unixSocketOf(t), fd); !errors.Is(err, unix.EINVAL) {
			t.Errorf("by its namespace: %v", err)
		}
	}
}

// TestConfirm: a user's claim does not count to root before the user has a packet socket. If root takes the
// ports in between, the user learns of it, and root keeps them.
func TestConfirm(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ports := driver.BlockPorts(claimBlock)
	unix.Setfsuid(4001)
	first, err := ClaimPorts(claimIndex, "nowhere", claimType, ports)
	unix.Setfsuid(0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	if err := first.Confirm(); err != nil {
		t.Error(err)
	}
	second, err := ClaimPorts(claimIndex, "nowhere", claimType, ports)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if err := CheckClaim(claimIndex, claimType, ports, second.Sockets()); err != nil {
		t.Errorf("root's claim: %v", err)
	}
	if err := first.Confirm(); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("the user's claim: %v", err)
	}
	if err := second.Confirm(); err != nil {
		t.Errorf("root's claim: %v", err)
	}
	if err := CheckClaim(claimIndex, claimType, ports, first.Sockets()); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the user's claim, shown to root: %v", err)
	}
	second.Release()
	if err := first.Confirm(); err != nil {
		t.Errorf("when root has left: %v", err)
	}
}
