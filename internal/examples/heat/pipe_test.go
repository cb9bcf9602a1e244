package heat

import (
	"errors"
	"image"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

// TestPipe: a pipe without another end is refused, where it would block for ever.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(pipe); !errors.Is(err, userfile.ErrNotRegular) {
		t.Errorf("reading: %v", err)
	}
	if err := WriteFile(pipe, image.NewGray(image.Rect(0, 0, 1, 1))); !errors.Is(err, userfile.ErrNoReader) {
		t.Errorf("writing: %v", err)
	}
}
