package seal

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeyFilePipe: a key file that is a pipe is refused at once, and not waited for.
func TestKeyFilePipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := File(name)(); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "not a regular file but a pipe") {
		t.Errorf("got %v", err)
	}
}
