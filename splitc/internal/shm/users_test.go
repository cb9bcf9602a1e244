package shm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// callEnv makes the test binary a rank of TestUsers: the prefix of its sockets.
const callEnv = "BOBNET_TEST_SPLITC_SHM_CALL"

// usersHeap is the length of a heap in TestUsers.
const usersHeap = 4096

func TestMain(m *testing.M) {
	prefix := os.Getenv(callEnv)
	if prefix == "" {
		os.Exit(m.Run())
	}
	if err := callRole(prefix); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// callRole is rank 1: it listens, says so, and hands rank 0 its file. It ends when its
// standard input does.
func callRole(prefix string) error {
	s, err := newSockets(prefix, 1)
	if err != nil {
		return err
	}
	m, err := newMemory(usersHeap, 2)
	if err != nil {
		return err
	}
	if err := s.give(0, 1, m.fd); err != nil {
		fmt.Println("refused:", err)
	} else {
		fmt.Println("given")
	}
	var end [1]byte
	os.Stdin.Read(end[:])
	return nil
}

// TestUsers: ranks of one user get each other's files. A process of another user that calls
// itself a rank gets none, and gives none, whoever calls whom.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	for _, c := range []struct {
		user  int
		joins bool
	}{{os.Geteuid(), true}, {12345, false}} {
		t.Run(strconv.Itoa(c.user), func(t *testing.T) {
			prefix := fmt.Sprintf("@bobnet-splitc-test/%d/%d/", os.Getpid(), c.user)
			s, err := newSockets(prefix, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			own, err := newMemory(usersHeap, 2)
			if err != nil {
				t.Fatal(err)
			}
			defer own.free()
			l := &Layer{cfg: layer.Config{Procs: 2, HeapSize: usersHeap}, hosts: []int{0, 0}, near: make([]*neighbour, 2), own: own}
			said, end := caller(t, prefix, c.user)
			defer end()
			joined, err := s.take(l)
			if err != nil || (joined == 1) != c.joins || (l.stats.Strays == 0) != c.joins {
				t.Errorf("%d neighbours have joined and %d callers were refused: %v", joined, l.stats.Strays, err)
			}
			for _, n := range l.list {
				n.mem.free()
			}
			if refused := strings.HasPrefix(said, "refused") && strings.Contains(said, ErrUser.Error()); refused == c.joins {
				t.Errorf("the caller says %q", said)
			}
			if err := s.give(1, 0, own.fd); errors.Is(err, ErrUser) == c.joins || err != nil && !errors.Is(err, ErrUser) {
				t.Errorf("handing it this rank's memory: %v", err)
			}
		})
	}
}

// caller starts rank 1 as a user, and returns what it says when it has called.
func caller(t *testing.T, prefix string, user int) (said string, end func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Dir = append(os.Environ(), callEnv+"="+prefix), "/" // go test builds where others cannot look
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 1024)
	n, err := out.Read(text)
	if err != nil {
		t.Errorf("the caller says nothing: %v", err)
	}
	return string(text[:n]), func() {
		in.Close()
		cmd.Wait()
	}
}
