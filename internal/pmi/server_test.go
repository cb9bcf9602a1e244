package pmi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func fileOf(fd int) *os.File { return os.NewFile(uintptr(fd), "end of a pair") }

// node is a Server on its own: its barriers end by themselves.
func node(ranks int, abort func(rank, code int)) *Server {
	var s *Server
	s = NewServer(ServerConfig{Space: "job 1", Size: ranks, Ranks: ranks, Mapping: "(vector,(0,1,2))", Waits: func() {}, Fence: func(puts []Word) { s.Release(puts) }, Abort: abort})
	return s
}

// TestRanks: ranks find what the others have put, after each of several barriers.
func TestRanks(t *testing.T) {
	const ranks, rounds = 5, 4
	s := node(ranks, nil)
	var wait sync.WaitGroup
	for rank := range ranks {
		conn, env := pair(t, fmt.Sprint(rank), fmt.Sprint(ranks))
		wait.Add(2)
		go func() {
			defer wait.Done()
			if err := s.Serve(rank, conn); err != nil {
				t.Error(err)
			}
		}()
		go func() {
			defer wait.Done()
			if err := exchange(env, rank, ranks, rounds); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}()
	}
	wait.Wait()
}

func exchange(env func(string) string, rank, ranks, rounds int) error {
	c, err := Open(bg, env)
	if err != nil {
		return err
	}
	defer c.Close()
	for round := range rounds {
		if err := c.Put(bg, fmt.Sprintf("%d-%d", round, rank), fmt.Sprint("of ", rank)); err != nil {
			return err
		}
		if err := c.Barrier(bg); err != nil {
			return err
		}
		for other := range ranks {
			if v, err := c.Get(bg, fmt.Sprintf("%d-%d", round, other)); err != nil || v != fmt.Sprint("of ", other) {
				return fmt.Errorf("rank %d: %q, %w", other, v, err)
			}
		}
	}
	if _, err := c.Get(bg, "nothing"); !errors.Is(err, ErrNoKey) {
		return fmt.Errorf("a key that nobody has put: %w", err)
	}
	if err := c.Put(bg, fmt.Sprintf("0-%d", rank), "again"); err == nil || !strings.Contains(err.Error(), "put_already") {
		return fmt.Errorf("a key that is there: %w", err)
	}
	return c.Finalize(bg)
}

// TestRankMisbehaves: what no rank may send ends its conversation, and no other's.
func TestRankMisbehaves(t *testing.T) {
	const begin = "cmd=init pmi_version=1 pmi_subversion=1\n"
	for _, tc := range []struct{ says, want string }{
		{"cmd=put key=a value=b\n", "put before init"},
		{begin + begin, "init twice"},
		{begin + "cmd=finalize\ncmd=get key=a\n", "get before init, or after finalize"},
		{begin + "cmd=spawn\n", `unknown command "spawn"`},
		{begin + "mcmd=spawn\n", "not with cmd="},
		{begin + "\n", "it is empty"},
		{begin + "cmd=barrier_in\ncmd=barrier_in\n", "barrier_in within a barrier"},
		{begin + strings.Repeat("y", 5000), "no end of line"},
		{begin + "cmd=get key=", "the connection ended within a line"},
		{begin + "cmd=get\x00\n", "not printable"},
		{"cmd=init pmi_version=2 pmi_subversion=0\ncmd=finalize\n", "finalize before init"},
		{begin + "cmd=get_maxes\n", ""},
	} {
		s := node(2, nil)
		here, there := sockets(t)
		go io.Copy(io.Discard, there)
		go func() {
			there.Write([]byte(tc.says))
			there.CloseWrite()
		}()
		err := s.Serve(0, here)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: %v, want %q", tc.says, err, tc.want)
		}
		if here, _ := net.Pipe(); tc.want == "" {
			if err := s.Serve(0, here); err == nil || !strings.Contains(err.Error(), "rank 0 connected twice") {
				t.Errorf("a second rank 0: %v", err)
			}
		}
	}
}

// sockets returns both ends of a socket pair.
func sockets(t *testing.T) (here net.Conn, there *net.UnixConn) {
	t.Helper()
	here, env := pair(t, "0", "1")
	fd, err := strconv.Atoi(env(EnvFD))
	if err != nil {
		t.Fatal(err)
	}
	file := fileOf(fd)
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return here, conn.(*net.UnixConn)
}

// TestRefused: what does not fit, or belongs to another space, is refused, and abort
// reaches the launcher with its code.
func TestRefused(t *testing.T) {
	var code int
	s := node(1, func(_, c int) { code = c })
	here, there := net.Pipe()
	ended := make(chan error)
	go func() { ended <- s.Serve(0, here) }()
	l := lines{conn: there}
	long := strings.Repeat("k", MaxKey)
	for _, tc := range []struct {
		ask  Line
		want string
	}{
		{NewLine("init", "pmi_version", "2"), "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1"},
		{NewLine("init", "pmi_version", "1"), "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1"},
		{NewLine("get_maxes"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{NewLine("get_appnum"), "cmd=appnum rc=0 appnum=0"},
		{NewLine("get_universe_size"), "cmd=universe_size rc=0 size=1"},
		{NewLine("get_my_kvsname"), `cmd=my_kvsname rc=0 kvsname=job\ 1`},
		{NewLine("put", "kvsname", "job 1", "key", long, "value", "v"), "cmd=put_result rc=-1 msg=too_long_or_too_many"},
		{NewLine("put", "kvsname", "job 1", "key", "", "value", "v"), "cmd=put_result rc=-1 msg=too_long_or_too_many"},
		{NewLine("put", "kvsname", "other", "key", "k", "value", "v"), "cmd=put_result rc=-1 msg=no_such_space"},
		{NewLine("put", "kvsname", "job 1", "key", "k", "value", "v"), "cmd=put_result rc=0"},
		{NewLine("put", "kvsname", "job 1", "key", "k", "value", "w"), "cmd=put_result rc=-1 msg=put_already"},
		{NewLine("get", "kvsname", "job 1", "key", "k"), "cmd=get_result rc=-1 msg=no_such_key"}, // not before the barrier
		{NewLine("barrier_in"), "cmd=barrier_out rc=0"},
		{NewLine("get", "kvsname", "job 1", "key", "k"), "cmd=get_result rc=0 value=v"},
		{NewLine("get", "kvsname", "job 1", "key", "PMI_process_mapping"), "cmd=get_result rc=0 value=(vector,(0,1,2))"},
		{NewLine("get", "kvsname", "other", "key", "k"), "cmd=get_result rc=-1 msg=no_such_key"},
	} {
		if err := l.write(tc.ask); err != nil {
			t.Fatal(err)
		}
		if got, err := l.read(); err != nil || got.String() != tc.want {
			t.Errorf("%v: %v, %v, want %s", tc.ask, got, err, tc.want)
		}
	}
	if err := l.write(NewLine("abort", "exitcode", "9")); err != nil {
		t.Error(err)
	}
	there.Close()
	if err := <-ended; err != nil || code != 9 {
		t.Errorf("%v, and abort was heard with %d", err, code)
	}
}

// TestWaitsBeforeFence: who is told that a barrier has begun hears so before he is told that all
// are in it, although ranks enter on goroutines of their own.
func TestWaitsBeforeFence(t *testing.T) {
	second, client := net.Pipe()
	fenced := make(chan struct{})
	s := NewServer(ServerConfig{Space: "job 1", Size: 2, Ranks: 2, Fence: func([]Word) { close(fenced) }, Waits: func() {
		fmt.Fprintln(client, "cmd=barrier_in") // returns when the server has it
		select {
		case <-fenced:
			t.Error("the barrier is complete before it has begun")
		case <-time.After(50 * time.Millisecond): // nothing is to come
		}
	}})
	first := &session{server: s, begun: true}
	var wait sync.WaitGroup
	wait.Go(func() { s.Serve(1, second) })
	fmt.Fprintln(client, "cmd=init pmi_version=1 pmi_subversion=1")
	if _, err := client.Read(make([]byte, 200)); err != nil {
		t.Fatal(err)
	}
	if err := first.enter(); err != nil {
		t.Fatal(err)
	}
	<-fenced
	client.Close()
	wait.Wait()
}
