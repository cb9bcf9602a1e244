package shm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	share "github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"golang.org/x/sys/unix"
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
			joined, err := s.receiveFiles(l)
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

// limit sets a resource limit of this process, and returns what raises it again.
func limit(t *testing.T, resource int, cur uint64) (raise func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(resource, &before); err != nil {
		t.Fatal(err)
	}
	set := func(r unix.Rlimit) {
		if err := unix.Setrlimit(resource, &r); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: cur, Max: before.Max})
	return func() { set(before) }
}

// useUpDescriptors opens files until the process may not open one more.
func useUpDescriptors(t *testing.T) (raise func()) {
	t.Helper()
	lift := limit(t, unix.RLIMIT_NOFILE, 256)
	var fds []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	return func() {
		lift()
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// TestScarce: a rank that cannot make its heap, or cannot take a neighbour's, names the limit.
func TestScarce(t *testing.T) {
	const heap = 1 << 20
	check := func(what, remedy string, err error) {
		t.Helper()
		if !errors.Is(err, share.ErrNoMemory) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v; want ErrNoMemory and %q", what, err, remedy)
		}
	}
	raise := limit(t, unix.RLIMIT_FSIZE, heap)
	_, err := newMemory(heap, 2)
	raise()
	check("a heap beyond the limit of the size of files", "ulimit -f", err)

	raise = useUpDescriptors(t)
	_, err = newMemory(heap, 2)
	raise()
	check("a heap without a descriptor", "ulimit -n", err)

	s, err := newSockets(fmt.Sprintf("@bobnet-splitc-test/%d/scarce/", os.Getpid()), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	m, err := newMemory(heap, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.free()
	if err := s.give(0, 1, m.fd); err != nil {
		t.Fatal(err)
	}
	l := &Layer{cfg: layer.Config{Procs: 2, HeapSize: heap}, hosts: []int{0, 0}, near: make([]*neighbour, 2)}
	raise = useUpDescriptors(t)
	_, err = s.receiveFiles(l)
	raise()
	check("a neighbour's connection without a descriptor", "ulimit -n", err)

	if err := s.accept(l); err != nil || len(s.callers) != 1 {
		t.Fatalf("%d connections have come: %v", len(s.callers), err)
	}
	raise = useUpDescriptors(t)
	_, _, err = receive(s.callers[0])
	raise()
	check("a neighbour's heap without a descriptor", "ulimit -n", err)
}

// spoiled is a layer whose inbox and heap somebody writes over until it is closed.
type spoiled struct {
	layer.Layer
	over atomic.Bool
	done sync.WaitGroup
}

// Close ends that first: the memory goes with the layer.
func (s *spoiled) Close() {
	s.over.Store(true)
	s.done.Wait()
	s.Layer.Close()
}

// scribble writes anything into the lanes of the inbox and into the heap, with pauses of all
// lengths, so that programs come to different places before it harms them.
func (s *spoiled) scribble(l *Layer, rng *rand.Rand) {
	defer s.done.Done()
	for !s.over.Load() {
		for range rng.IntN(1 << rng.IntN(14)) {
			runtime.Gosched()
		}
		inbox := lane(l.own.inbox, rng.IntN(l.cfg.Procs))
		at, ring := rng.IntN(len(inbox)), ringsAt+ringSize*rng.IntN(2)
		switch rng.IntN(4) {
		case 0: // a counter
			at = []int{0, ring, ring + 64}[rng.IntN(3)] + rng.IntN(8)
		case 1, 2: // the head of an entry
			at = ring + ringAt + entrySize*rng.IntN(slots) + rng.IntN(entryHead)
		}
		inbox[at] ^= byte(rng.Uint32())
		l.own.heap[rng.IntN(len(l.own.heap))] ^= byte(rng.Uint32())
	}
}

// TestScribbledInFlight: while programs run, another processor writes anything over the
// memory that ranks of a host share. Each of them ends, with what it should do, with wrong
// data, or with an error; and some are told that the memory was written over.
func TestScribbledInFlight(t *testing.T) {
	most := 300
	if !need.Full() {
		most = 100
	}
	garbled, failed := 0, 0
	for seed := uint64(1); seed <= uint64(most) && (garbled == 0 || seed <= 8); seed++ {
		rank := uint64(0)
		open := func(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
			l, err := Open(ctx, cfg)
			if err != nil {
				return nil, err
			}
			s := &spoiled{Layer: l}
			s.done.Add(1)
			rank++
			go s.scribble(l.(*Layer), rand.New(rand.NewPCG(seed, rank)))
			return s, nil
		}
		for _, err := range layertest.Spoiled(t, open, seed) {
			if err != nil {
				failed++
			}
			if errors.Is(err, errGarbled) {
				garbled++
			}
		}
	}
	t.Logf("%d programs failed, %d because the memory was found to be written over", failed, garbled)
	if garbled == 0 {
		t.Error("nobody has found the memory to be written over")
	}
}

// TestNamesSayNothing: a user who sees the name of one rank's socket, which the kernel shows to
// everybody, does not know the names of other ranks, and cannot bind these before.
func TestNamesSayNothing(t *testing.T) {
	secret := fmt.Sprintf("%016x/%d", uint64(0xabcdef0123456789), os.Getpid())
	s, err := newSockets(secret, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	list, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	own := s.address(0).Name
	if !strings.Contains(string(list), own) {
		t.Errorf("the kernel does not list %q", own)
	}
	if other := s.address(1).Name; other[:len(other)-1] == own[:len(own)-1] {
		t.Errorf("ranks 0 and 1 are %q and %q", own, other)
	}
	if strings.Contains(string(list), "abcdef0123456789") {
		t.Error("the kernel lists what the names are made of")
	}
}
