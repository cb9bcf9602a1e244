package shm_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/lingertest"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// A stranger is a process that follows the protocol as far as it has to, until
// it has what it needs to do harm. These tests are in one process with the link,
// which is told nothing of that.

// strangerRing is the size of its rings.
const strangerRing = 1 << 20

// stranger is a program that calls from a block of ports that it has claimed.
type stranger struct {
	*testing.T
	conn     *net.UnixConn
	ports    transport.PortRange
	instance uint64 // that it says, if not 0
	uid      uint32 // its user
}

// newStranger claims a block of ports of a's segment.
func newStranger(t *testing.T, a *shm.Link, block int) *stranger {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", a.Address(fmt.Sprint(block)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &stranger{T: t, uid: uint32(os.Geteuid()), conn: conn, ports: transport.PortRange{Lo: uint16(block) << 10, Hi: uint16(block)<<10 + 1023}}
}

// line is what a stranger has of one call.
type line struct {
	mine, theirs int  // the ends of the stream
	answered     bool // or refused
	bell         int  // what came with the answer, or -1
}

// call calls a with a file of rings. What a gets in time is closed here, and at the end of the
// test what the line has then: whoever closes one of its descriptors sets that to -1, because its
// number may be another one's from then on.
func (s *stranger) call(a *shm.Link, file int) *line {
	s.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.Fatal(err)
	}
	hello := helloOf(uint32(s.ports.Lo)<<16|uint32(s.ports.Hi), strangerRing)
	if s.instance != 0 {
		binary.BigEndian.PutUint64(hello[8:], s.instance)
	}
	to := a.Address(fmt.Sprint(a.Info().Ports.Lo / 1024))
	who := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: s.uid, Gid: uint32(os.Getgid())})
	if _, _, err := s.conn.WriteMsgUnix(hello, append(who, unix.UnixRights(pair[1], file)...), to); err != nil {
		s.Fatal(err)
	}
	c := &line{mine: pair[0], theirs: pair[1], bell: -1}
	closed := make(chan struct{})
	go func() { // it takes long if the link was faster
		unix.Close(file)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
	s.Cleanup(func() {
		for _, fd := range []int{c.mine, c.theirs, c.bell} {
			unix.Close(fd)
		}
	})
	return c
}

// answer waits until a answers or refuses the call. theirs is closed, so that
// it sees the end.
func (s *stranger) answer(c *line) {
	s.Helper()
	unix.Close(c.theirs)
	c.theirs = -1
	text, rights := make([]byte, 64), make([]byte, 64)
	n, k, _, _, err := unix.Recvmsg(c.mine, text, rights, 0)
	if err != nil {
		s.Fatal(err)
	}
	c.answered = n > 0
	if msgs, err := unix.ParseSocketControlMessage(rights[:k]); err == nil && len(msgs) == 1 {
		fds, _ := unix.ParseUnixRights(&msgs[0])
		c.bell = fds[0]
	}
}

// taken waits until all calls have been received, whatever became of them.
func (s *stranger) taken() {
	s.Helper()
	raw, err := s.conn.SyscallConn()
	if err != nil {
		s.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		waiting := -1
		raw.Control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) })
		if waiting == 0 && err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the calls are not taken: %d, %v", waiting, err)
		}
	}
}

// file returns rings in which frames lie.
func (s *stranger) file(frames ...[]byte) int {
	s.Helper()
	fd, err := unix.MemfdCreate("stranger", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		s.Fatal(err)
	}
	const control = 64 << 10
	ring := make([]byte, strangerRing)
	at := 0
	for _, f := range frames {
		binary.NativeEndian.PutUint16(ring[at:], uint16(len(f)-ethertype.HeaderSize+1))
		copy(ring[at+2:], f)
		at += (2 + len(f) + 63) &^ 63
	}
	if err := unix.Ftruncate(fd, control+2*strangerRing); err != nil {
		s.Fatal(err)
	}
	if _, err := unix.Pwrite(fd, ring, control); err != nil {
		s.Fatal(err)
	}
	if err := setSeals(fd, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		s.Fatal(err)
	}
	return fd
}

// soon fails the test unless f returns in a time in which only what hangs does
// not.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		panic(what + " hangs") // so would the end of the test
	}
}

// TestCallerBlocks: who has called sets the stream, of which he has made both
// ends, to block, and gets the link to look at it.
func TestCallerBlocks(t *testing.T) {
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	garbage := frame(a, a, "not for this segment").Head
	garbage[12] ^= 0xff
	c := s.call(a, s.file(garbage))
	for end := a.Now() + int64(10*time.Second); a.Peers() == 0 && a.Now() < end; {
		a.Wait(a.Now() + int64(time.Millisecond))
	}
	if a.Peers() != 1 {
		t.Fatal("the call was not taken")
	}
	if err := unix.SetNonblock(c.theirs, false); err != nil {
		t.Fatal(err)
	}
	if err := unix.Send(c.mine, []byte{1}, unix.MSG_OOB); err != nil {
		t.Skipf("no urgent data on Unix sockets: %v", err)
	}
	until(t, "the look at the stream", func() bool { return a.Ended() == 1 })
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	soon(t, "Recv", func() { departure(t, a, &why) })
	soon(t, "Close", func() { a.Close() })
}

// TestCloseLingers: descriptors that come with calls take for ever to close:
// of one that is refused, and of one that lies unread when the link is closed.
func TestCloseLingers(t *testing.T) {
	cfg := shm.Config{Ports: transport.PortRange{Lo: 1024, Hi: 2047}}
	a := open(t, cfg)
	s := newStranger(t, a, 60)
	s.call(a, lingertest.Socket(t))
	s.taken()
	s.call(a, lingertest.Socket(t))
	soon(t, "Close", func() { a.Close() })
	open(t, cfg) // the ports are free
}

// TestOthersCall: what a program passes with its calls, or sends to the bell, and what takes for ever
// to close, keeps no other from calling, and the link not from sleeping.
func TestOthersCall(t *testing.T) {
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	for range 5 {
		s.pass(a.Address(fmt.Sprint(a.Info().Ports.Lo/1024)), helloOf(1, 1), lingertest.Socket(t), lingertest.Hidden(t), lingertest.Socket(t))
		s.pass(a.BellName(), []byte{1}, lingertest.Socket(t), lingertest.Hidden(t))
		b := open(t, shm.Config{})
		soon(t, "another one's call", func() { pump(t, b, a, 1, frame(b, a, "honest")) })
		soon(t, "the end of a sleep", func() {
			a.BeginSleep()
			a.EndSleep()
		})
		b.Close()
	}
}

// pass sends a message with descriptors, which are closed here.
func (s *stranger) pass(to *net.UnixAddr, text []byte, fds ...int) {
	s.Helper()
	if _, _, err := s.conn.WriteMsgUnix(text, unix.UnixRights(fds...), to); err != nil && !errors.Is(err, unix.EPERM) {
		s.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { // it takes long if the link was faster
		for _, fd := range fds {
			unix.Close(fd)
		}
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// TestStreamLingers: a caller sends over the stream what takes for ever to close
// with it.
func TestStreamLingers(t *testing.T) {
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	c := s.call(a, s.file(s.own(a)))
	if s.answer(c); !c.answered {
		t.Fatal("the call was not answered")
	}
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	fd := lingertest.Socket(t)
	if err := unix.Sendmsg(c.mine, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	soon(t, "Recv", func() { departure(t, a, &why) })
	soon(t, "Close", func() { a.Close() })
}

// TestBellsApart: whatever a caller does to what he has of the link's, he does
// not silence its bell for others.
func TestBellsApart(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	pump(t, a, b, 1, frame(a, b, "hello"))
	pump(t, b, a, 1, frame(b, a, "hello"))
	s := newStranger(t, a, 60)
	c := s.call(a, s.file())
	if s.answer(c); !c.answered {
		t.Fatal("the call was not answered")
	}
	if c.bell >= 0 {
		unix.Shutdown(c.bell, unix.SHUT_RDWR)
	}
	unix.Shutdown(c.mine, unix.SHUT_RDWR)
	a.Recv(make([][]byte, 4))
	for a.BeginSleep() {
		a.EndSleep()
		a.Recv(make([][]byte, 4))
	}
	b.Send([]transport.Frame{frame(b, a, "wake up")})
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(a.Bell()), Events: unix.POLLIN}}, 10_000); n != 1 {
		t.Errorf("an honest peer's frame has not rung the bell (%v)", err)
	}
	a.EndSleep()
}

// TestCrowd: one caller cannot take the room of others, and who is refused is
// told before it believes in its rings.
func TestCrowd(t *testing.T) {
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60)
	answered := 0
	for range 40 {
		c := s.call(a, s.file())
		if s.answer(c); c.answered {
			answered++
		}
	}
	if n := a.Peers(); n != answered || n == 0 || n > 10 {
		t.Errorf("%d of 40 calls of one program were answered, and %d taken; want a few, and the same", answered, n)
	}
	b := open(t, shm.Config{})
	pump(t, b, a, 1, frame(b, a, "honest"))
}

// TestSources: a caller writes frames that seem to come from others. They are
// filtered out; its own arrive.
func TestSources(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	s := newStranger(t, a, 60)
	own := a.Info()
	own.Ports = s.ports
	remote, beyond := own, own
	remote.MAC[5] ^= 0x55
	beyond.Ports.Lo += 1024
	var frames [][]byte
	for _, from := range []transport.Info{b.Info(), remote, beyond, own} {
		frames = append(frames, linktest.NewFrame(from, a.Info(), a.Info().Ports.Lo, []byte("from somebody")))
	}
	s.call(a, s.file(frames...))
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	if got := pump(t, a, a, 1); string(got[0]) != string(frames[3]) {
		t.Errorf("got %x, want %x", got[0], frames[3])
	}
	if st := a.Stats(); st.RxFiltered != 3 || st.RxFrames != 1 || why != nil {
		t.Errorf("counted %+v, departure %v", st, why)
	}
}

// TestChanging: another user's program that changes the source of its frames all the time gets
// none received that seems to come from another port than its own.
func TestChanging(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to call as another user")
	}
	a := open(t, shm.Config{AnyUser: true})
	s := newStranger(t, a, 60)
	s.uid = 4321
	own := a.Info()
	own.Ports = s.ports
	frames := make([][]byte, 2000)
	for i := range frames {
		frames[i] = linktest.NewFrame(own, a.Info(), a.Info().Ports.Lo, []byte("from somebody"))
	}
	file := s.file(frames...)
	writes, err := unix.Dup(file)
	if err != nil {
		t.Fatal(err)
	}
	size := (2 + len(frames[0]) + 63) &^ 63
	var taken, rounds atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-stopped
		unix.Close(writes)
	}()
	go func() {
		defer close(stopped)
		for port := uint16(2048); ; port ^= 2048 ^ s.ports.Lo {
			select {
			case <-stop:
				return
			default:
			}
			first := int(taken.Load())
			for i := first; i < min(first+transport.MaxBatch, len(frames)); i++ {
				word := binary.BigEndian.AppendUint16(nil, port)
				unix.Pwrite(writes, word, int64(64<<10+i*size+2+framing.OffsetSrcPort))
			}
			rounds.Add(1)
		}
	}()
	s.call(a, file)
	views := make([][]byte, transport.MaxBatch)
	received := uint64(0)
	for end := a.Now() + int64(time.Minute); received+a.Stats().RxFiltered < uint64(len(frames)); {
		n, err := a.Recv(views)
		if err != nil || a.Now() > end {
			t.Fatalf("%d frames were received, %+v: %v", received, a.Stats(), err)
		}
		for until := rounds.Load() + 4; n > 0 && rounds.Load() < until; runtime.Gosched() { // while it changes
			for _, view := range views[:n] {
				if port := binary.BigEndian.Uint16(view[framing.OffsetSrcPort:]); !s.ports.Contains(port) {
					t.Fatalf("a frame was received that seems to come from port %d", port)
				}
			}
		}
		received += uint64(n)
		taken.Store(received + a.Stats().RxFiltered)
	}
}

// TestImpostor: a caller that says that it is another link does not get what goes
// to all in place of that one.
func TestImpostor(t *testing.T) {
	a, b := open(t, shm.Config{}), open(t, shm.Config{})
	s := newStranger(t, a, 60)
	s.instance = b.Instance()
	c := s.call(a, s.file())
	if s.answer(c); !c.answered {
		t.Fatal("the call was not answered")
	}
	until(t, "the call", func() bool { return a.Peers() == 1 })
	pump(t, b, a, 1, frame(b, a, "hello"))
	to := b.Info()
	to.MAC = ethertype.Broadcast
	all := transport.Frame{Head: linktest.NewFrame(a.Info(), to, ethertype.PortAll, []byte("all"))}
	if got := pump(t, a, b, 1, all); string(got[0]) != string(all.Head) {
		t.Errorf("got %x, want %x", got[0], all.Head)
	}
}

// squatter is the block of ports that these tests are about.
const squatter = 60

var squatted = transport.PortRange{Lo: squatter << 10, Hi: squatter<<10 + 9}

// TestPosing: a user who has the abstract name of a block is not taken for root's link that opens with
// that block: not by links that knew him before, and let in all users, nor by later calls.
func TestPosing(t *testing.T) {
	needRoot(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := open(t, shm.Config{AnyUser: true})
	var s *stranger
	if err := vethtest.As(4001, func() error {
		s = newStranger(t, a, squatter)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.uid = 4001
	c := s.call(a, s.file())
	if s.answer(c); !c.answered {
		t.Fatal("before root's link is there, the user was refused")
	}
	until(t, "the caller", func() bool { return a.Peers() == 1 })
	b := open(t, shm.Config{Address: shm.HostMAC, Ports: squatted, AnyUser: true})
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	var why error
	a.OnDeparture(func(_ transport.PortRange, err error) { why = err })
	departure(t, a, &why)
	pump(t, a, b, 1, frame(a, b, "for root's link"))
	pump(t, b, a, 1, frame(b, a, "from root's link"))
	c = s.call(a, s.file())
	if s.answer(c); c.answered {
		t.Error("a call from the abstract name was answered, and root's link has the block")
	}
}

// TestSilentSquatter: a user who has the abstract name of a block, and does not answer, keeps no frame from root's link
// that opens with that block, however long a call may wait for an answer.
func TestSilentSquatter(t *testing.T) {
	needRoot(t)
	t.Cleanup(shm.SetCallTime(time.Hour))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := open(t, shm.Config{})
	if err := vethtest.As(4001, func() error {
		newStranger(t, a, squatter)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	to := a.Info()
	to.Ports = squatted
	f := transport.Frame{Head: linktest.NewFrame(a.Info(), to, squatted.Lo, []byte("anybody?"))}
	if _, err := a.Send([]transport.Frame{f}); err != nil { // a calls the squatter
		t.Fatal(err)
	}
	b := open(t, shm.Config{Address: shm.HostMAC, Ports: squatted})
	views := make([][]byte, transport.MaxBatch)
	until(t, "a frame", func() bool {
		_, err := a.Send([]transport.Frame{f})
		n, failed := b.Recv(views)
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// TestForgedFile: the kernel tells the file of a caller's socket as the caller has named it, and another
// mount namespace has other files of that name. The caller must be the user who owns the file.
func TestForgedFile(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	a := open(t, shm.Config{AnyUser: true, Directory: dir})
	s := newStranger(t, a, squatter) // as if it had another mount namespace
	if err := os.Remove(filepath.Join(dir, "60")); err != nil {
		t.Fatal(err)
	}
	open(t, shm.Config{AnyUser: true, Directory: dir, Ports: squatted})
	s.uid = 4001
	c := s.call(a, s.file())
	if s.answer(c); c.answered {
		t.Error("a call of another user than the file's was answered")
	}
}

// What tells a child its user, whether it lets in others, and the port that it asks.
const (
	userEnv    = "BOBNET_TEST_SHM_USER"
	anyUserEnv = "BOBNET_TEST_SHM_ANY_USER"
	toEnv      = "BOBNET_TEST_SHM_TO"
)

// childConfig makes this process one of the user that userEnv says and returns how it
// is to open its link.
func childConfig() (*shm.Config, error) {
	if user := os.Getenv(userEnv); user != "" {
		id, err := strconv.Atoi(user)
		if err := errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(id), syscall.Setuid(id)); err != nil {
			return nil, err
		}
	}
	return &shm.Config{EtherType: etherType, AnyUser: os.Getenv(anyUserEnv) != ""}, nil
}

// ask sends one frame to the port that toEnv says, which is sent back or dropped
// somewhere, and prints what has become of it.
func ask(l *shm.Link) {
	to := l.Info()
	var port uint16
	if _, err := fmt.Sscan(os.Getenv(toEnv), &port); err != nil {
		fmt.Println(err)
		return
	}
	l.Send([]transport.Frame{{Head: linktest.NewFrame(l.Info(), to, port, []byte("who are you"))}})
	for views := make([][]byte, 1); ; runtime.Gosched() {
		if n, err := l.Recv(views); n > 0 || err != nil {
			fmt.Println("answered", err)
			return
		}
		if st := l.Stats(); st.TxDrops > 0 {
			fmt.Println("dropped", st.Refused)
			return
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
}

// user is whose a process is, and whether it lets in others.
type user struct {
	id      int
	anyUser bool
}

func (u user) env() []string {
	env := []string{userEnv + "=" + strconv.Itoa(u.id)}
	if u.anyUser {
		env = append(env, anyUserEnv+"=yes")
	}
	return env
}

// TestUsers: processes share memory if each of them is of the other's user, or of
// root, or lets in everybody. The kernel tells whose they are.
func TestUsers(t *testing.T) {
	needRoot(t)
	for _, c := range []struct {
		server, client user
		want           string
	}{
		{user{id: 0}, user{id: 0}, "answered"},
		{user{id: 4001}, user{id: 4001}, "answered"},
		{user{id: 0}, user{id: 4001}, "dropped 0"},    // the server refuses
		{user{id: 4001}, user{id: 0}, "dropped 1"},    // the server is not let in by the client
		{user{id: 4001}, user{id: 4002}, "dropped 0"}, // the server refuses
		{user{0, true}, user{id: 4001}, "answered"},
		{user{id: 4001}, user{0, true}, "answered"},
		{user{4001, true}, user{id: 4002}, "dropped 1"},
		{user{4001, true}, user{4002, true}, "answered"},
	} {
		t.Run(fmt.Sprint(c.server, c.client), func(t *testing.T) {
			server := startWith(t, "Echo", c.server.env())
			client := startWith(t, "Ask", append(c.client.env(), fmt.Sprintf("%s=%d", toEnv, server.info.Ports.Lo)))
			line, err := client.out.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, c.want) {
				t.Errorf("%q (%v), want %q", line, err, c.want)
			}
		})
	}
}

// TestUserRefused: a process of another user that calls is counted, and gets nothing;
// another of the own user is not kept waiting.
func TestUserRefused(t *testing.T) {
	needRoot(t)
	a := open(t, shm.Config{})
	client := startWith(t, "Ask", append(user{id: 4001}.env(), fmt.Sprintf("%s=%d", toEnv, a.Info().Ports.Lo)))
	if line, err := client.out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "dropped") {
		t.Errorf("%q (%v)", line, err)
	}
	until(t, "the refusal", func() bool { return a.Stats().Refused == 1 })
	if n := a.Peers(); n != 0 {
		t.Errorf("%d peers", n)
	}
	b := open(t, shm.Config{})
	pump(t, b, a, 1, frame(b, a, "honest"))
}

// TestStrangerUnknown: who keeps to itself whose it is, as only a program that does
// not follow the protocol can try, is known all the same.
func TestStrangerUnknown(t *testing.T) {
	a := open(t, shm.Config{})
	s := newStranger(t, a, 60) // says nothing, and is of the own user
	c := s.call(a, s.file())
	if s.answer(c); !c.answered {
		t.Error("the call was not answered")
	}
}

// TestTakenByWhom: the error for ports that another process has names it and its user.
func TestTakenByWhom(t *testing.T) {
	needRoot(t)
	c := startWith(t, "Idle", user{id: 4001}.env())
	ports := transport.PortRange{Lo: c.info.Ports.Lo, Hi: c.info.Ports.Lo + 9}
	l, err := shm.Open(&shm.Config{EtherType: etherType, Ports: ports})
	if err == nil {
		l.Close()
	}
	if want := fmt.Sprintf("process %d of user 4001", c.Process.Pid); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v: does not say %q", err, want)
	}
	next := open(t, shm.Config{}) // and who asks for none gets others
	if next.Info().Ports.Contains(c.info.Ports.Lo) {
		t.Errorf("got the ports %v, which are taken", next.Info().Ports)
	}
}

// TestFlooded: processes that send messages without end to a link's socket keep no other from calling. A call
// that finds no room is lost with its frame, so frames are sent until one arrives.
func TestFlooded(t *testing.T) {
	a := open(t, shm.Config{})
	name := a.Address(fmt.Sprint(a.Info().Ports.Lo / 1024)).Name
	var senders sync.WaitGroup
	defer senders.Wait()
	var over atomic.Bool
	defer over.Store(true)
	for range 16 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		senders.Go(func() {
			defer unix.Close(fd)
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1})
			to := &unix.SockaddrUnix{Name: name} // Sendto writes to it
			for !over.Load() {
				unix.Sendto(fd, []byte("junk"), 0, to)
			}
		})
	}
	views := make([][]byte, transport.MaxBatch)
	for range 5 {
		b := open(t, shm.Config{})
		for n, end := 0, a.Now()+int64(30*time.Second); n == 0; {
			_, err := b.Send([]transport.Frame{frame(b, a, "honest")})
			err = errors.Join(err, a.Wait(a.Now()+int64(20*time.Millisecond)))
			if err == nil {
				n, err = a.Recv(views)
			}
			if err != nil || a.Now() > end {
				t.Fatalf("no frame arrives; %v; sender %+v, receiver %+v", err, b.Stats(), a.Stats())
			}
		}
		b.Close()
	}
}
