package vipl_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// forbidEnv tells the role lock to give up the right to lock memory.
const forbidEnv = "BOBNET_TEST_VIPL_FORBID"

// TestMemoryWithoutLock: a process without the right to lock memory allocates
// some and sends messages from there, and the log says once that it is not
// locked, and the remedy. One that may says nothing.
func TestMemoryWithoutLock(t *testing.T) {
	for _, forbid := range []string{"", "yes"} {
		t.Run("forbidden="+forbid, func(t *testing.T) {
			c := play(t, "lock", (*exec.Cmd).Start, forbidEnv+"="+forbid)
			said, err := io.ReadAll(c.out)
			if err != nil {
				t.Fatal(err)
			}
			text := string(said)
			if !strings.HasSuffix(text, "messages: 2\n") {
				t.Fatalf("the process said:\n%s", text)
			}
			locked := !strings.Contains(text, "VmLck:\t       0 kB")
			if locked && forbid != "" {
				t.Fatalf("the memory is locked all the same:\n%s", text)
			}
			want := 1
			if locked {
				want = 0
			}
			for _, words := range []string{"registered memory is not locked", "ulimit -l unlimited"} {
				if n := strings.Count(text, words); n != want {
					t.Errorf("%q stands %d times, want %d:\n%s", words, n, want, text)
				}
			}
		})
	}
}

// lockRole sends two messages between VIs of one NIC, from memory of the
// library's.
func lockRole() error {
	runtime.LockOSThread() // which has the rights, and allocates
	if os.Getenv(forbidEnv) != "" {
		if err := forbidLock(); err != nil {
			return err
		}
	}
	n, err := vipl.Open(context.Background(), &vipl.Config{Driver: "udp", Interface: vethtest.Loopback(51), Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		return err
	}
	for range 2 {
		a, b, err := meet([2]*vipl.NIC{n, n})
		if err == nil {
			err = oneMessage(a, b)
		}
		if err != nil {
			return err
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "VmLck:")
	line, _, _ := strings.Cut(rest, "\n")
	n.FlushLog() // which goes to stdout, too
	fmt.Printf("VmLck:%s\nmessages: 2\n", line)
	return nil
}

// forbidLock takes the right to lock memory from the calling thread.
func forbidLock() error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	return unix.Capset(&head, &sets[0])
}
