package runsocket

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// TestRoot: root's server starts though another program has its abstract name, is found, is the
// only one, and takes the place of one that was killed.
func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be the server of")
	}
	directory = t.TempDir()
	squatter, err := net.Listen("unix", Abstract("test/1"))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	for range 2 {
		l, err := Listen("unix", "test/1")
		if err != nil {
			t.Fatal(err)
		}
		c, err := Dial("unix", "test/1")
		if err != nil {
			t.Fatal(err)
		}
		if to := c.RemoteAddr().String(); !strings.HasPrefix(to, directory) {
			t.Errorf("connected to %s", to)
		}
		c.Close()
		if _, err := Listen("unix", "test/1"); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("a second server: %v, want EADDRINUSE", err)
		}
		l.SetUnlinkOnClose(false) // as if it were killed
		l.Close()
	}
	c, err := Dial("unix", "test/1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if to := c.RemoteAddr().String(); to != Abstract("test/1") {
		t.Errorf("after root's server has ended, connected to %s", to)
	}
}

// TestElsewhere: without a directory to write the name is an abstract one.
func TestElsewhere(t *testing.T) {
	directory = "/proc/no such place"
	l, err := Listen("unix", "test/2")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial("unix", "test/2")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.Close()
	if _, err := Dial("unix", "test/2"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v, want ECONNREFUSED", err)
	}
}
