package shm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// readSize is of memory that takes several system calls to read.
const readSize = 20<<20 + 13

func readPattern() []byte {
	b := make([]byte, readSize)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], uint64(i)*0x9e3779b97f4a7c15)
	}
	return b
}

var readMark = uint64(0x1122334455667788)

func addressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// memoryRole tells where its memory is, and answers frames, so that another link meets it.
func memoryRole(l *shm.Link) {
	b := readPattern()
	fmt.Println(addressOf(&b[0]), addressOf(&readMark))
	serve(l, true, true)
	runtime.KeepAlive(b)
}

// memoryOf returns a link that has met a process of its own, and where that process has its memory.
func memoryOf(t *testing.T) (l *shm.Link, c *child, at, mark uint64) {
	t.Helper()
	l, c = open(t, shm.Config{}), start(t, "Memory")
	if _, err := fmt.Fscan(c.out, &at, &mark); err != nil {
		t.Fatal(err)
	}
	pump(t, l, l, 1, c.frame(l, 100))
	return l, c, at, mark
}

// TestReadMemory: a link reads the memory of the process at a port, and only what is there.
func TestReadMemory(t *testing.T) {
	l, c, at, mark := memoryOf(t)
	port, want := c.info.Ports.Lo, readPattern()
	for _, n := range []int{1, 4097, readSize} {
		got := make([]byte, n)
		word, err := l.ReadMemory(port, got, at, mark)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			t.Skipf("the kernel does not permit it: %v", err)
		}
		if err != nil || word != readMark || !bytes.Equal(got, want[:n]) {
			t.Errorf("%d bytes: %#x, %v", n, word, err)
		}
	}
	got := make([]byte, 100)
	for what, read := range map[string]func() (uint64, error){
		"nothing is at address 0":     func() (uint64, error) { return l.ReadMemory(port, got, 0, mark) },
		"nothing is at the mark":      func() (uint64, error) { return l.ReadMemory(port, got, at, 8) },
		"the address is the kernel's": func() (uint64, error) { return l.ReadMemory(port, got, 1<<63, mark) },
		"the mark is the kernel's":    func() (uint64, error) { return l.ReadMemory(port, got, at, 1<<64-8) },
		"nobody is at the port":       func() (uint64, error) { return l.ReadMemory(port^0x4000, got, at, mark) },
		"it is the link's own port":   func() (uint64, error) { return l.ReadMemory(l.Info().Ports.Lo, got, at, mark) },
	} {
		if word, err := read(); err == nil {
			t.Errorf("%s, and yet it was read: %#x", what, word)
		}
	}
}

// TestReadMemoryOfTheDead: the memory of a process that has ended cannot be read.
func TestReadMemoryOfTheDead(t *testing.T) {
	l, c, at, mark := memoryOf(t)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if word, err := l.ReadMemory(c.info.Ports.Lo, make([]byte, 100), at, mark); err == nil {
		t.Errorf("read %#x", word)
	}
}

// TestReadMemoryOfAnotherUser: a process of another user is not read, not even by root.
func TestReadMemoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to call as another user")
	}
	a := open(t, shm.Config{AnyUser: true})
	for _, uid := range []uint32{0, 4321} {
		s := newStranger(t, a, 5+int(uid)&1)
		s.uid = uid
		s.answer(s.call(a, s.file()))
		for !a.Lives(s.ports.Lo) { // a answers a moment before
			a.Wait(a.Now() + int64(time.Millisecond))
		}
		b := []byte{1, 2, 3}
		got := make([]byte, len(b))
		_, err := a.ReadMemory(s.ports.Lo, got, addressOf(&b[0]), addressOf(&readMark))
		if own := uid == 0; own != (err == nil) || own != bytes.Equal(got, b) {
			t.Errorf("user %d: read %v, %v", uid, got, err)
		}
	}
}
