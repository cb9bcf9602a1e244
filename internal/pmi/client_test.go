package pmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

var bg = context.Background()

// pair returns an end of a socket pair as a launcher has it, and the environment of the
// rank that has inherited the other one.
func pair(t *testing.T, rank, size string) (net.Conn, func(string) string) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := fileOf(fds[0])
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	env := map[string]string{EnvFD: strconv.Itoa(fds[1]), EnvRank: rank, EnvSize: size}
	return conn, func(name string) string { return env[name] }
}

// script has a launcher answer each line that comes by the next of its answers, which
// may be several lines or none, and close the connection after the last.
func script(conn net.Conn, answers ...string) (asked func() []string) {
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		in := lines{conn: conn}
		for _, answer := range answers {
			l, err := in.read()
			if err != nil {
				return
			}
			got = append(got, l.String())
			if _, err := conn.Write([]byte(answer)); err != nil {
				return
			}
		}
	}()
	return func() []string { <-done; return got }
}

// hello is how a launcher answers the first requests.
var hello = []string{
	"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n",
	"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
	"cmd=my_kvsname kvsname=kvs_1\n",
}

// TestClient: what a process asks, in which words, and what it makes of the answers.
func TestClient(t *testing.T) {
	conn, env := pair(t, "1", "3")
	asked := script(conn, append(hello,
		"cmd=put_result rc=0 msg=success\n",
		"cmd=barrier_out\n",
		"cmd=get_result rc=0 msg=success value=beef\n",
		"cmd=get_result rc=-1 msg=key_y_not_found value=unknown\n",
		"cmd=get_result rc=0 found=false\n",
		"cmd=get_result rc=0\n",
		"")...)
	c, err := Open(bg, env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rank() != 1 || c.Size() != 3 || c.Space() != "kvs_1" {
		t.Errorf("rank %d of %d, space %q", c.Rank(), c.Size(), c.Space())
	}
	if err := errors.Join(c.Put(bg, "addr-1", "cafe"), c.Barrier(bg)); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(bg, "addr-0"); v != "beef" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
	for range 3 {
		if v, err := c.Get(bg, "y"); !errors.Is(err, ErrNoKey) {
			t.Errorf("a key that is missing has the value %q, %v", v, err)
		}
	}
	if err := c.Put(bg, strings.Repeat("k", 64), "v"); err == nil || !strings.Contains(err.Error(), "less than 64 and 1024") {
		t.Errorf("a key that is too long: %v", err)
	}
	if err := c.Put(bg, "k", strings.Repeat("v", 1010)); !errors.Is(err, ErrLine) { // fits vallen_max, and no line
		t.Errorf("a line that is too long: %v", err)
	}
	if err := c.Finalize(bg); err != nil { // the launcher closes without an answer
		t.Errorf("finalize: %v", err)
	}
	want := []string{"cmd=init pmi_version=1 pmi_subversion=1", "cmd=get_maxes", "cmd=get_my_kvsname",
		"cmd=put kvsname=kvs_1 key=addr-1 value=cafe", "cmd=barrier_in", "cmd=get kvsname=kvs_1 key=addr-0"}
	if got := asked(); fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
		t.Errorf("asked\n%q, want\n%q", got, want)
	}
}

// TestLauncherMisbehaves: answers that are none, and a launcher that has died, are
// errors which say so; none hangs.
func TestLauncherMisbehaves(t *testing.T) {
	for _, tc := range []struct {
		rank, size string
		answers    []string
		says       string
	}{
		{"0", "2", nil, "the launcher has closed the connection"},
		{"0", "2", []string{hello[0], "cmd=maxes keyl"}, "the launcher has closed the connection"},
		{"0", "2", []string{"hello there\n"}, `"hello" has no key`},
		{"0", "2", []string{strings.Repeat("x", 3000)}, "no end of line"},
		{"0", "2", []string{"cmd=response_to_init rc=\x01\n"}, "not printable"},
		{"0", "2", []string{"cmd=maxes\n"}, "answers with maxes, want response_to_init"},
		{"0", "2", []string{"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"}, `uses PMI version "2"`},
		{"0", "2", []string{"cmd=response_to_init rc=-1 pmi_version=1\n"}, "refuses init: rc=-1"},
		{"0", "2", []string{hello[0], "cmd=maxes keylen_max=many vallen_max=9\n"}, `keylen_max is "many"`},
		{"0", "2", []string{hello[0], hello[1], "cmd=my_kvsname\n"}, "no name for its key-value space"},
		{"2", "2", hello, "invalid rank 2 of 2 from the launcher"},
		{"x", "2", hello, `PMI_RANK is "x"`},
		{"0", "", hello, `PMI_SIZE is ""`},
	} {
		conn, env := pair(t, tc.rank, tc.size)
		asked := script(conn, tc.answers...)
		c, err := Open(bg, env)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %+v, %v, want %q", tc.answers, c, err, tc.says)
		}
		conn.Close()
		asked()
	}
}

// TestNoLauncher: without variables there is none, and a descriptor that is no socket is
// said to be that.
func TestNoLauncher(t *testing.T) {
	if _, err := Open(bg, func(string) string { return "" }); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	for fd, says := range map[string]string{"many": "want the number of a descriptor", "1000000": "is not an open socket", "-1": "want the number"} {
		_, err := Open(bg, func(name string) string { return map[string]string{EnvFD: fd}[name] })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s=%s: %v, want %q", EnvFD, fd, err, says)
		}
	}
}

// TestPort: the handshake of a launcher's port tells rank and size.
func TestPort(t *testing.T) {
	for _, tc := range []struct{ answer, says string }{
		{"cmd=initack\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n", ""},
		{"cmd=initack rc=0\ncmd=set debug=0\ncmd=set rank=2\ncmd=set size=4\n", ""},
		{"cmd=initack rc=-1 msg=id_2_is_there_already\n", "refuses initack: rc=-1 id_2_is_there_already"},
		{"cmd=initack\ncmd=set size=-4\n", `reports size "-4", want a number`},
		{"cmd=initack\ncmd=go\n", "answers with go, want set"},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				script(conn, append([]string{tc.answer}, hello...)...)
			}
		}()
		env := map[string]string{EnvPort: listener.Addr().String(), EnvID: "2"}
		c, err := Open(bg, func(name string) string { return env[name] })
		switch {
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%q: %v, want %q", tc.answer, err, tc.says)
		case tc.says == "" && (err != nil || c.Rank() != 2 || c.Size() != 4):
			t.Errorf("%q: %+v, %v", tc.answer, c, err)
		}
		if c != nil {
			c.Close()
		}
		listener.Close()
	}
	env := map[string]string{EnvPort: "127.0.0.1:1", EnvID: "2"}
	if _, err := Open(bg, func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "the launcher at PMI_PORT=127.0.0.1:1") {
		t.Errorf("a launcher that is not there: %v", err)
	}
}

// TestBarrierGoesOn: a barrier that a context has cut off is the same barrier when it is
// called again, and nothing else is asked in between.
func TestBarrierGoesOn(t *testing.T) {
	conn, env := pair(t, "0", "2")
	stopped, cancel := context.WithCancel(bg)
	released := make(chan struct{})
	go func() {
		in := lines{conn: conn}
		for i := range len(hello) + 1 {
			if _, err := in.read(); err == nil && i < len(hello) {
				conn.Write([]byte(hello[i]))
			}
		}
		conn.Write([]byte("cmd=barr"))
		cancel() // the barrier has been asked for
		<-released
		conn.Write([]byte("ier_out\n"))
		in.read()
		conn.Write([]byte("cmd=get_result rc=0 value=v\n"))
	}()
	c, err := Open(bg, env)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.Barrier(stopped); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := c.Get(bg, "k"); err == nil || !strings.Contains(err.Error(), "get: not allowed within a barrier") {
			t.Errorf("get within a barrier: %v", err)
		}
	}
	close(released)
	if err := c.Barrier(bg); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(bg, "k"); v != "v" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}

// TestCutOff: a request that a context has cut off ends the connection, because its
// answer would be taken for that of the next.
func TestCutOff(t *testing.T) {
	conn, env := pair(t, "0", "2")
	stopped, cancel := context.WithCancel(bg)
	go func() {
		in := lines{conn: conn}
		for i := range len(hello) + 1 {
			if _, err := in.read(); err == nil && i < len(hello) {
				conn.Write([]byte(hello[i]))
			}
		}
		cancel()
	}()
	c, err := Open(bg, env)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Get(stopped, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("an answer that nobody gave: %v", err)
		}
	}
	if _, err := c.Get(bg, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("the connection is used again: %v", err)
	}
}

// TestAbort: the launcher hears of it while the rank waits in a barrier.
func TestAbort(t *testing.T) {
	conn, env := pair(t, "0", "2")
	asked := script(conn, append(hello, "", "")...)
	c, err := Open(bg, env)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		if err := c.Barrier(bg); !errors.Is(err, ErrGone) {
			t.Errorf("the barrier of an aborted job: %v", err)
		}
	}()
	if err := c.Abort(7); err != nil {
		t.Error(err)
	}
	wait.Wait()
	if got := fmt.Sprint(asked()); !strings.Contains(got, "cmd=abort exitcode=7") || !strings.Contains(got, "cmd=barrier_in") {
		t.Errorf("asked %s", got)
	}
}

// TestExitCode: no code is one of success, whatever the system takes of it, and launchers are
// told what comes of it.
func TestExitCode(t *testing.T) {
	for code, want := range map[int]int{1: 1, 7: 7, 255: 255, 0: 1, 256: 1, 257: 1, 258: 2, -1: 255, -256: 1} {
		if got := ExitCode(code); got != want {
			t.Errorf("of code %d comes %d, want %d", code, got, want)
		}
		conn, env := pair(t, "0", "2")
		asked := script(conn, append(hello, "")...)
		c, err := Open(bg, env)
		if err == nil {
			err = c.Abort(code)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, say := asked(), fmt.Sprintf("cmd=abort exitcode=%d", want); got[len(got)-1] != say {
			t.Errorf("code %d: asked %q, want %q last", code, got, say)
		}
	}
}
