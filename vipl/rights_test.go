package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// TestWithoutRights connects NICs and sends a message by the drivers that need no
// rights, udp and shm, in a process that has none.
func TestWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to give up rights: the other tests of udp and shm have just run without")
	}
	c := play(t, "nobody", func(c *exec.Cmd) error {
		const id = 65534
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		c.Path, c.Dir = "/proc/self/exe", "/" // go test builds where others cannot look
		err := c.Start()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM) {
			need.Skip(t, "root that may become another user: %v", err)
		}
		return err
	})
	if line, err := c.out.ReadString('\n'); err != nil || line != "done\n" {
		t.Errorf("the process said %q (%v)", line, err)
	}
}

// nobodyRole is what a process without rights does.
func nobodyRole() error {
	if fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err != unix.EPERM {
		unix.Close(fd)
		return fmt.Errorf("packet socket: %v: the process has rights", err)
	}
	for driver, interfaces := range map[string][2]string{"udp": {vethtest.Loopback(35), vethtest.Loopback(36)}, "shm": {}} {
		if err := oneLife(driver, interfaces); err != nil {
			return fmt.Errorf("%s: %w", driver, err)
		}
	}
	fmt.Println("done")
	return nil
}

// oneLife opens two NICs, sends a message from one to the other and closes them.
func oneLife(driver string, interfaces [2]string) (err error) {
	var nics [2]*vipl.NIC
	for i := range nics {
		if nics[i], err = vipl.Open(context.Background(), &vipl.Config{Interface: interfaces[i], Driver: driver}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, nics[i].Close()) }()
	}
	a, b, err := meet(nics)
	if err != nil {
		return err
	}
	return oneMessage(a, b)
}
