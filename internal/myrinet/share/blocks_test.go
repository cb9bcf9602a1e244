package share

import (
	"errors"
	"os"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// TestBlocksOfUser: a user has no more than his part of a card's blocks, for as long as anybody holds
// their sockets; those whose sockets are closed are free, also to a card that starts later.
func TestBlocksOfUser(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to make sockets of other users")
	}
	const user = 4321
	s := &seats{directory: t.TempDir()}
	var held []int
	for range mostOfUser {
		ports, fds, err := s.openSockets(user, transport.PortRange{})
		if err != nil || len(fds) != 1 {
			t.Fatalf("ports %v, sockets %v: %v", ports, fds, err)
		}
		held = append(held, fds...)
	}
	defer func() { closeAll(held) }()
	if _, fds, err := s.openSockets(user, transport.PortRange{}); err == nil {
		t.Errorf("user has %d blocks and gets %d sockets more", mostOfUser, len(fds))
	}
	s = &seats{directory: s.directory} // the card is started again
	if _, _, err := s.openSockets(user, transport.PortRange{}); err == nil {
		t.Error("after the card's restart the user gets more")
	}
	if _, _, err := s.openSockets(0, driver.BlockPorts(1)); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("ports that another program has: %v, want EADDRINUSE", err)
	}
	_, fds, err := s.openSockets(0, transport.PortRange{Lo: 20 * driver.BlockSize, Hi: 60*driver.BlockSize - 1})
	if err != nil || len(fds) != 40 {
		t.Errorf("root gets %d blocks: %v", len(fds), err)
	}
	closeAll(fds)
	unix.Close(held[0])
	ports, fds, err := s.openSockets(user, transport.PortRange{})
	if err != nil || ports != driver.BlockPorts(1) {
		t.Errorf("after a block was given back, ports %v: %v", ports, err)
	}
	held = append(held[1:], fds...)
}
