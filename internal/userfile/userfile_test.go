package userfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNotRegular: what is no regular file is refused at once, also a pipe that nobody writes to.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{pipe: "a pipe", dir: "a folder", os.DevNull: "a device"} {
		if _, err := Read(name, 100); !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that it is %s", name, err, want)
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestRead: a regular file is read up to the most that it may have.
func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(name, 5); err != nil || string(text) != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := Read(name, 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("a file that is too long: %v", err)
	}
}
