package userfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOutputPipe: a pipe that no process reads is an error at once, which says what to do. One
// with a reader works, also if Check has looked at it before.
func TestOutputPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	create := func(name string) error { _, err := Create(name); return err }
	for name, f := range map[string]func(string) error{"Check": Check, "Create": create, "Write": func(name string) error { return Write(name, nil, 0o600) }} {
		if err := f(pipe); !errors.Is(err, ErrNoReader) || !strings.Contains(err.Error(), pipe) || !strings.Contains(err.Error(), "start its reader first") {
			t.Errorf("%s: %v, want %v", name, err, ErrNoReader)
		}
	}
	in, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := Check(pipe); err != nil {
		t.Fatal(err)
	}
	in.SetReadDeadline(time.Now()) // it does not wait for data
	if n, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Check has ended the data of the reader: %d, %v", n, err)
	}
	if err := Write(pipe, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	in.SetReadDeadline(time.Now().Add(time.Minute))
	var got [10]byte
	if n, err := in.Read(got[:]); string(got[:n]) != "hello" {
		t.Errorf("the reader gets %q, %v", got[:n], err)
	}
}

// TestGiveUp: a write that waits for a reader ends.
func TestGiveUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := Create(pipe)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := out.Write(make([]byte, 1<<21)) // more than a pipe holds
		ended <- err
	}()
	in.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := in.Read(make([]byte, 1)); err != nil { // it has begun
		t.Fatal(err)
	}
	GiveUp()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) || out.Close() == nil {
			t.Errorf("%v, want that it is over", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the reader")
	}
}

// TestOutputKinds: devices and the standard output work, a socket and a folder do not.
func TestOutputKinds(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{"/dev/null": "", "/dev/stdout": "", filepath.Join(dir, "new"): "", socket: "a socket", dir: "is a directory"} {
		err := Check(name)
		if err == nil {
			err = Write(name, []byte("\n"), 0o600)
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
}

// TestFirstError: a File keeps the first error of writing, and Close returns it.
func TestFirstError(t *testing.T) {
	f, err := Create("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	var lost *WriteError
	if _, err := f.WriteString("x"); !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &lost) || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("the first write: %v", err)
	}
	first := f.Err()
	f.Close()
	f.Write([]byte("y"))
	if got := f.Close(); got == nil || got != first || !errors.Is(got, syscall.ENOSPC) {
		t.Errorf("%v, want the first error %v", got, first)
	}
	if err := Write("/dev/full", []byte("x"), 0o600); !errors.As(err, &lost) {
		t.Errorf("Write: %v", err)
	}
}

// TestCheck: it leaves no new file, and nothing of an old one is lost.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", old, filepath.Join(dir, "new")} {
		if err := Check(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, "none", "x"), filepath.Join(old, "x")} {
		if err := Check(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want an error that names it", name, err)
		}
	}
	if b, err := os.ReadFile(old); string(b) != "kept" {
		t.Errorf("the old file holds %q now (%v)", b, err)
	}
	if all, err := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v (%v)", all, err)
	}
}
