package rpcbind_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc/rpcbind"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

const (
	testProg = 0x20000077
	testVers = 2
)

type word struct{ n uint32 }

func (w *word) MarshalXDR(e *xdr.Encoder)   { e.Uint(w.n) }
func (w *word) UnmarshalXDR(d *xdr.Decoder) { w.n = d.Uint() }

// newProgram returns a server with the test program, whose procedure 1 doubles a number and
// whose procedure 2 fails.
func newProgram(t testing.TB) *vrpc.Server {
	t.Helper()
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	err := s.Register(&vrpc.Program{Number: testProg, Version: testVers, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "DOUBLE", func(_ *vrpc.Call, arg, res *word) error {
			res.n = 2 * arg.n
			return nil
		}),
		vrpc.Proc(2, "FAIL", func(*vrpc.Call, *xdr.Void, *xdr.Void) error { return vrpc.AuthTooWeak }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// listen makes s answer on the loopback and in a socket.
func listen(t testing.TB, s *vrpc.Server) (tcp, udp, unix string) {
	t.Helper()
	var at []string
	for _, n := range []string{"tcp", "udp", "unix"} {
		address := "127.0.0.1:0"
		if n == "unix" {
			address = filepath.Join(t.TempDir(), "socket")
		}
		addr, err := s.Listen(n, address)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, addr.String())
	}
	return at[0], at[1], at[2]
}

// binder is a server of rpcbind and where it is.
type binder struct{ tcp, udp, unix string }

func newBinder(t testing.TB, cfg *rpcbind.ServerConfig) binder {
	t.Helper()
	s := vrpc.NewServer(nil)
	t.Cleanup(func() { s.Close() })
	tcp, udp, unix := listen(t, s)
	if err := rpcbind.NewServer(cfg).Register(s); err != nil {
		t.Fatal(err)
	}
	return binder{tcp, udp, unix}
}

func dial(t testing.TB, network, address string) *rpcbind.Client {
	t.Helper()
	c, err := rpcbind.Dial(t.Context(), network, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// announceAt registers the test program of a new server at b, and returns its universal
// addresses.
func announceAt(t testing.TB, b binder) (tcp, udp string) {
	t.Helper()
	s := newProgram(t)
	listen(t, s)
	c := dial(t, "unix", b.unix)
	for _, e := range s.Endpoints() {
		n := rpcbind.Entry{Program: testProg, Version: testVers, Netid: e.Netid, Addr: rpcbind.UniversalAddr(e.Addr)}
		if err := c.Set(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		switch e.Netid {
		case "tcp":
			tcp = n.Addr
		case "udp":
			udp = n.Addr
		}
	}
	return tcp, udp
}

// What is registered through the socket is found by every transport and version, and is gone
// when it is removed.
func TestSetFindUnset(t *testing.T) {
	b := newBinder(t, nil)
	wantTCP, wantUDP := announceAt(t, b)
	for _, at := range []struct{ network, address, netid, want string }{
		{"tcp", b.tcp, "tcp", wantTCP}, {"tcp", b.tcp, "udp", wantUDP}, {"udp", b.udp, "udp", wantUDP}, {"unix", b.unix, "tcp", wantTCP},
	} {
		c := dial(t, at.network, at.address)
		if c.Version() != rpcbind.Version4 {
			t.Errorf("version %d", c.Version())
		}
		if got, err := c.Addr(t.Context(), testProg, testVers, at.netid); err != nil || got != at.want {
			t.Errorf("by %s %s: %q, %v, want %q", at.network, at.netid, got, err, at.want)
		}
		want, _ := rpcbind.ParseAddr(at.want)
		if got, err := c.Port(t.Context(), testProg, testVers, at.netid); err != nil || got != want.Port() {
			t.Errorf("by %s %s: port %d, %v, want %v", at.network, at.netid, got, err, want)
		}
		if _, err := c.Addr(t.Context(), testProg, testVers+1, at.netid); !errors.Is(err, rpcbind.ErrNotRegistered) {
			t.Errorf("another version: %v", err)
		}
		if got, err := c.Time(t.Context()); err != nil || time.Since(got).Abs() > time.Hour {
			t.Errorf("time %v, %v", got, err)
		}
	}
	c := dial(t, "unix", b.unix)
	if ports, err := c.Ports(t.Context()); err != nil || len(ports) != 2*3+2 {
		t.Errorf("ports %v, %v", ports, err)
	}
	if err := c.Unset(t.Context(), testProg, testVers, "tcp"); err != nil {
		t.Error(err)
	}
	if _, err := c.Addr(t.Context(), testProg, testVers, "tcp"); !errors.Is(err, rpcbind.ErrNotRegistered) {
		t.Errorf("removed: %v", err)
	}
	if err := c.Unset(t.Context(), testProg, testVers, ""); err != nil {
		t.Error(err)
	}
	if err := c.Unset(t.Context(), testProg, testVers, ""); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("removed twice: %v", err)
	}
	if entries, err := c.Dump(t.Context()); err != nil || len(entries) != 9 {
		t.Errorf("its own entries: %v, %v", entries, err)
	}
}

// Programs are found and called by one call.
func TestDialProgram(t *testing.T) {
	b := newBinder(t, nil)
	announceAt(t, b)
	for network, address := range map[string]string{"tcp": b.tcp, "udp": b.udp} {
		c, err := rpcbind.DialProgram(t.Context(), network, address, testProg, testVers, nil)
		if err != nil {
			t.Fatal(err)
		}
		var res word
		if err := c.Call(t.Context(), 1, &word{21}, &res); err != nil || res.n != 42 {
			t.Errorf("%s: %d, %v", network, res.n, err)
		}
		c.Close()
	}
	if _, err := rpcbind.DialProgram(t.Context(), "tcp", b.tcp, testProg+1, 1, nil); !errors.Is(err, rpcbind.ErrNotRegistered) {
		t.Error(err)
	}
}

// An older rpcbind has only some versions: the client speaks the highest one of them.
func TestVersions(t *testing.T) {
	for _, highest := range []uint32{rpcbind.Version2, rpcbind.Version3} {
		s := vrpc.NewServer(nil)
		defer s.Close()
		_, _, unix := listen(t, s)
		if err := rpcbind.NewServer(nil).Register(s); err != nil {
			t.Fatal(err)
		}
		for v := highest + 1; v <= rpcbind.Version4; v++ {
			s.Unregister(rpcbind.Program, v)
		}
		c := dial(t, "unix", unix)
		if c.Version() != highest {
			t.Errorf("version %d, want %d", c.Version(), highest)
		}
		n := rpcbind.Entry{Program: testProg, Version: testVers, Netid: "tcp", Addr: "0.0.0.0.8.1"}
		if err := c.Set(t.Context(), n); err != nil {
			t.Error(err)
		}
		if got, err := c.Addr(t.Context(), testProg, testVers, "tcp"); err != nil || got != "127.0.0.1.8.1" {
			t.Errorf("%q, %v", got, err)
		}
		n.Netid, n.Addr = "local", "/x"
		if err := c.Set(t.Context(), n); (err != nil) != (highest == rpcbind.Version2) {
			t.Errorf("by version %d a socket: %v", highest, err)
		}
		if err := c.Unset(t.Context(), testProg, testVers, "tcp"); err != nil {
			t.Error(err)
		}
	}
}

// Who may not change entries does not, and rpcbind's own stay.
func TestRefused(t *testing.T) {
	b := newBinder(t, nil)
	local, remote := dial(t, "unix", b.unix), dial(t, "tcp", b.tcp)
	n := rpcbind.Entry{Program: testProg, Version: 1, Netid: "tcp", Addr: "127.0.0.1.8.1"}
	if err := remote.Set(t.Context(), n); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("from a port that everybody may take: %v", err)
	}
	for range 2 { // the same again is no error
		if err := local.Set(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := remote.Unset(t.Context(), testProg, 1, "tcp"); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("removed from a port that everybody may take: %v", err)
	}
	n.Addr = "127.0.0.1.8.2"
	if err := local.Set(t.Context(), n); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("another address: %v", err)
	}
	for _, bad := range []rpcbind.Entry{
		{Program: testProg, Version: 2, Netid: "tcp", Addr: "127.0.0.1"}, {Program: testProg, Version: 2, Netid: "tcp6", Addr: "127.0.0.1.1.1"},
		{Program: testProg, Version: 2, Netid: "udp", Addr: ""}, {Program: testProg, Version: 2, Addr: "127.0.0.1.1.1"},
	} {
		if err := local.Set(t.Context(), bad); !errors.Is(err, rpcbind.ErrAddr) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := local.Unset(t.Context(), rpcbind.Program, rpcbind.Version4, ""); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("rpcbind's own entries: %v", err)
	}
	own := rpcbind.Entry{Program: rpcbind.Program, Version: 7, Netid: "tcp", Addr: "127.0.0.1.8.1"}
	if err := local.Set(t.Context(), own); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("another version of rpcbind: %v", err)
	}
}

// The table has a bound, for an ordinary user an eighth of the superuser's.
func TestFull(t *testing.T) {
	least := 4000
	if os.Getuid() != 0 {
		least /= 8
	}
	b := newBinder(t, nil)
	c := dial(t, "unix", b.unix)
	for v := range uint32(5000) {
		err := c.Set(t.Context(), rpcbind.Entry{Program: testProg, Version: v, Netid: "vmmc", Addr: strconv.Itoa(int(v))})
		if errors.Is(err, rpcbind.ErrRefused) {
			if v < uint32(least) {
				t.Errorf("full after %d", v)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("never full")
}

// The addresses that a family has, with what their netids mean.
func TestEndpoints(t *testing.T) {
	b := newBinder(t, nil)
	tcp, udp := announceAt(t, b)
	got, err := dial(t, "tcp", b.tcp).Endpoints(t.Context(), testProg, testVers)
	want := []rpcbind.Endpoint{
		{Addr: tcp, Netid: "tcp", Semantics: rpcbind.SemanticsOrderlyStream, Family: "inet", Proto: "tcp"},
		{Addr: udp, Netid: "udp", Semantics: rpcbind.SemanticsDatagram, Family: "inet", Proto: "udp"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

// Calls by mediation: told errors by version 4, silence by 2; nothing at all where they are
// not allowed.
func TestIndirect(t *testing.T) {
	b := newBinder(t, &rpcbind.ServerConfig{RemoteCalls: true})
	_, udp := announceAt(t, b)
	c := dial(t, "tcp", b.tcp)
	var res word
	if at, err := c.Indirect(t.Context(), testProg, testVers, 1, &word{21}, &res); err != nil || res.n != 42 || at != udp {
		t.Errorf("%d from %s, %v", res.n, at, err)
	}
	for _, x := range []struct {
		prog, vers, proc uint32
		want             error
	}{
		{testProg, testVers, 2, vrpc.AuthTooWeak}, {testProg, testVers, 9, vrpc.ProcUnavail}, {testProg + 1, 1, 1, vrpc.ProgUnavail},
		{rpcbind.Program, rpcbind.Version2, 4, vrpc.ProcUnavail},
	} {
		if _, err := c.Indirect(t.Context(), x.prog, x.vers, x.proc, xdr.Void{}, &xdr.Void{}); !errors.Is(err, x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	closed := newBinder(t, nil)
	announceAt(t, closed)
	if _, err := dial(t, "tcp", closed.tcp).Indirect(t.Context(), testProg, testVers, 1, &word{21}, &res); !errors.Is(err, vrpc.ProcUnavail) {
		t.Errorf("where remote calls are not allowed: %v", err)
	}
}

// A broadcast collects what several machines answer, each once, and does not hear of the
// others.
func TestBroadcast(t *testing.T) {
	var to []netip.AddrPort
	want := map[string]bool{}
	for i := range 4 {
		b := newBinder(t, &rpcbind.ServerConfig{RemoteCalls: i != 3})
		if i != 2 {
			_, udp := announceAt(t, b)
			want[udp] = i != 3
		}
		to = append(to, netip.MustParseAddrPort(b.udp))
	}
	got := map[string]bool{}
	var res word
	err := rpcbind.Broadcast(t.Context(), to, testProg, testVers, 1, &word{21}, &res, func(a rpcbind.Answer) bool {
		if !want[a.Addr] || got[a.Addr] || res.n != 42 {
			t.Errorf("%+v with %d", a, res.n)
		}
		got[a.Addr] = true
		return len(got) < 2
	}, &vrpc.ClientConfig{Retry: 10 * time.Millisecond, MaxRetry: 20 * time.Millisecond})
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// A broadcast ends with its context; of what comes first, each is told.
func TestBroadcastEnds(t *testing.T) {
	b := newBinder(t, &rpcbind.ServerConfig{RemoteCalls: true})
	announceAt(t, b)
	ctx, cancel := contextWithCancel(t)
	answers := 0
	var res word
	err := rpcbind.Broadcast(ctx, []netip.AddrPort{netip.MustParseAddrPort(b.udp)}, testProg, testVers, 1, &word{1}, &res, func(rpcbind.Answer) bool {
		answers++
		cancel()
		return true
	}, nil)
	if !errors.Is(err, ctx.Err()) || answers != 1 {
		t.Errorf("%d answers, %v", answers, err)
	}
	if list, err := rpcbind.BroadcastAddrs(); err != nil || len(list) == 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// The form that addresses have within the system, and back.
func TestTransportAddresses(t *testing.T) {
	b := newBinder(t, nil)
	rpc, err := vrpc.Dial(t.Context(), "tcp", b.tcp, rpcbind.Program, rpcbind.Version3, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rpc.Close()
	for _, uaddr := range []string{"192.0.2.1.8.1", "2001:db8::1.255.255", "nonsense"} {
		var inner blob
		if err := rpc.Call(t.Context(), 7, (*str)(&uaddr), &inner); err != nil {
			t.Fatal(err)
		}
		var back str
		if err := rpc.Call(t.Context(), 8, &inner, &back); err != nil {
			t.Fatal(err)
		}
		if want := map[string]str{"nonsense": ""}; string(back) != uaddr && back != want[uaddr] {
			t.Errorf("%q has become %q", uaddr, back)
		}
	}
}

type str string

func (s *str) MarshalXDR(e *xdr.Encoder)   { e.String(string(*s), 100) }
func (s *str) UnmarshalXDR(d *xdr.Decoder) { *s = str(d.String(100)) }

// blob is a struct netbuf.
type blob struct {
	room uint32
	data []byte
}

func (b *blob) MarshalXDR(e *xdr.Encoder)   { e.Uint(b.room); e.Opaque(b.data, 100) }
func (b *blob) UnmarshalXDR(d *xdr.Decoder) { b.room = d.Uint(); b.data = d.Opaque(b.data, 100) }

// patience is how long a tool may take on a busy machine.
const patience = time.Minute

// isolatedEnv says to the test's own process that it is in namespaces of its own.
const isolatedEnv = "BOBNET_TEST_RPCBIND_NAMESPACES"

// isolated runs the test again in a process with a network and a /run of its own, so that
// it may have port 111 and rpcbind's socket. It reports whether it is that process.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) != "" {
		return true
	}
	for _, tool := range []string{"rpcinfo", "rpcbind", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%s: apt-get install rpcbind iproute2", tool)
		}
	}
	if os.Getuid() != 0 || exec.Command("unshare", "--net", "--mount", "true").Run() != nil {
		need.Skip(t, "root, and rights to make namespaces")
	}
	cmd := exec.Command("unshare", "--net", "--mount", "sh", "-c", `mount -t tmpfs none /run && ip link set lo up && exec "$0" "$@"`,
		os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// tool runs rpcinfo and returns what it prints.
func tool(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "rpcinfo", args...).CombinedOutput()
	if err != nil {
		t.Errorf("rpcinfo %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// systemRPCBind starts Debian's rpcbind and waits until it answers.
func systemRPCBind(t *testing.T) {
	t.Helper()
	cmd := exec.Command("rpcbind", "-f", "-r")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	tick := time.NewTicker(10 * time.Millisecond) // the daemon does not say that it is ready
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		c, err := rpcbind.Local(t.Context(), nil)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// With the system's rpcbind a server registers there.
func TestToolsAndSystem(t *testing.T) {
	if !isolated(t) {
		return
	}
	systemRPCBind(t)
	askTools(t, false)
}

// Without one it serves program 100000 itself, and the tools do not see a difference.
func TestToolsAlone(t *testing.T) {
	if !isolated(t) {
		return
	}
	s := newProgram(t)
	if _, err := rpcbind.Announce(t.Context(), s, &rpcbind.Config{OnlySystem: true}); err == nil {
		t.Fatal("announced where nobody is to announce to")
	}
	askTools(t, true)
}

// askTools announces a server and looks at it through rpcinfo and through clients.
func askTools(t *testing.T, serving bool) {
	s := newProgram(t)
	for _, network := range []string{"tcp", "udp"} {
		if _, err := s.Listen(network, ":0"); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &rpcbind.Config{Server: rpcbind.ServerConfig{RemoteCalls: true}}
	a, err := rpcbind.Announce(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a.Serving() != serving {
		t.Errorf("rpcbind runs here: %v", a.Serving())
	}
	list := []string{"-l", "127.0.0.1", fmt.Sprint(testProg), fmt.Sprint(testVers)}
	if out := tool(t, list...); !strings.Contains(out, "tcp") || !strings.Contains(out, "udp") {
		t.Errorf("rpcinfo -l: %s", out)
	}
	s.AddEndpoint(vrpc.Endpoint{Netid: "vmmc", Addr: place("02:00:00:00:00:01/7/8")})
	if err := a.Update(t.Context(), s); err != nil {
		t.Error(err)
	}
	if serving { // the system's would not answer any more: see the package's comment
		tool(t, list...)
	}
	lookByTools(t)
	callThere(t, serving)
	second(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if c, err := rpcbind.Local(t.Context(), nil); err == nil {
		defer c.Close()
		if _, err := c.Addr(t.Context(), testProg, testVers, "tcp"); serving || !errors.Is(err, rpcbind.ErrNotRegistered) {
			t.Errorf("after the end: %v", err)
		}
	} else if !serving {
		t.Error(err)
	}
}

func lookByTools(t *testing.T) {
	prog, vers := fmt.Sprint(testProg), fmt.Sprint(testVers)
	for _, args := range [][]string{{"-p"}, {"-p", "127.0.0.1"}, {"-s"}, {"127.0.0.1"}, {}} {
		if out := tool(t, args...); !strings.Contains(out, prog) || !strings.Contains(out, "100000") {
			t.Errorf("rpcinfo %v does not show program %s:\n%s", args, prog, out)
		}
	}
	for _, args := range [][]string{
		{"-T", "tcp", "127.0.0.1", prog, vers}, {"-T", "udp", "127.0.0.1", prog, vers}, {"-T", "tcp", "127.0.0.1", prog},
		{"-T", "tcp6", "::1", prog, vers}, {"-T", "udp6", "::1", prog, vers},
		{"-u", "127.0.0.1", prog, vers}, {"-t", "127.0.0.1", prog, vers}, {"-T", "tcp", "127.0.0.1", "100000", "4"},
	} {
		if out := tool(t, args...); !strings.Contains(out, "ready and waiting") {
			t.Errorf("rpcinfo %v: %s", args, out)
		}
	}
	if out := tool(t, "-m"); !strings.Contains(out, "RPCBIND") {
		t.Errorf("rpcinfo -m: %s", out)
	}
}

// callThere finds the program through rpcbind and calls it.
func callThere(t *testing.T, serving bool) {
	for network, host := range map[string]string{"tcp": "127.0.0.1", "udp": "127.0.0.1", "tcp6": "::1", "udp6": "::1"} {
		c, err := rpcbind.DialProgram(t.Context(), network, host, testProg, testVers, nil)
		if err != nil {
			t.Errorf("%s: %v", network, err)
			continue
		}
		var res word
		if err := c.Call(t.Context(), 1, &word{4}, &res); err != nil || res.n != 8 {
			t.Errorf("%s: %d, %v", network, res.n, err)
		}
		c.Close()
	}
	c, err := rpcbind.Local(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if addr, err := c.Addr(t.Context(), testProg, testVers, "vmmc"); err != nil || addr != "02:00:00:00:00:01/7/8" {
		t.Errorf("vmmc: %q, %v", addr, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var res word
	answers := 0
	err = rpcbind.Broadcast(ctx, nil, testProg, testVers, 1, &word{21}, &res, func(rpcbind.Answer) bool {
		answers++
		return false
	}, nil)
	if err != nil || answers != 1 || res.n != 42 {
		t.Errorf("broadcast: %d answers, %d, %v", answers, res.n, err)
	}
}

// second is another server of the machine: it finds the rpcbind that the first has found or
// become, its own program gets in, and one that is there already does not, unless told to.
func second(t *testing.T) {
	s := vrpc.NewServer(nil)
	defer s.Close()
	if _, err := s.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(&vrpc.Program{Number: testProg + 1, Version: 1}); err != nil {
		t.Fatal(err)
	}
	a, err := rpcbind.Announce(t.Context(), s, nil)
	if err != nil || a.Serving() {
		t.Fatalf("%v, serving: %v", err, a.Serving())
	}
	other := vrpc.NewServer(nil)
	defer other.Close()
	if _, err := other.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := other.Register(&vrpc.Program{Number: testProg + 1, Version: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := rpcbind.Announce(t.Context(), other, nil); !errors.Is(err, rpcbind.ErrRefused) {
		t.Errorf("a program that is there already: %v", err)
	}
	if _, err := rpcbind.Announce(t.Context(), other, &rpcbind.Config{Replace: true}); err != nil {
		t.Error(err)
	}
}

// place is the address of a transport that the tools do not know.
type place string

func (p place) Network() string { return "vmmc" }
func (p place) String() string  { return string(p) }

// process returns a process of VMMC over shared memory.
func process(t *testing.T, number uint32) *vmmc.Process {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nic.Close() })
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: number, Job: fmt.Sprint(t.Name(), os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A server over VMMC is found by rpcbind; where rpcbind does not know it, or nobody is rpcbind,
// by the segment's name service.
func TestDialVMMC(t *testing.T) {
	b := newBinder(t, nil)
	server, client := process(t, 1), process(t, 2)
	s := newProgram(t)
	name, err := s.ListenVMMC(server, 9, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // before its process
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	for _, c := range []struct {
		host string
		set  bool
	}{{"", false}, {nobody, false}, {b.tcp, false}, {b.tcp, true}} {
		if c.set {
			n := rpcbind.Entry{Program: testProg, Version: testVers, Netid: "vmmc", Addr: vrpc.VMMCAddr(name).String()}
			if err := dial(t, "unix", b.unix).Set(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		rpc, err := rpcbind.DialVMMC(t.Context(), client, c.host, testProg, testVers, nil)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		var res word
		if err := rpc.Call(t.Context(), 1, &word{21}, &res); err != nil || res.n != 42 {
			t.Errorf("%+v: %d, %v", c, res.n, err)
		}
		if found := rpc.RemoteAddr().String() == vrpc.VMMCAddr(name).String(); found != c.set {
			t.Errorf("%+v: found at %v", c, rpc.RemoteAddr())
		}
		rpc.Close()
	}
}
