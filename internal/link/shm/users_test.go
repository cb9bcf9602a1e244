package shm_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

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
