package roundtrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/rfc"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// server carries out the programs of rfc.x.
type server struct {
	mu     sync.Mutex
	matrix rfc.Matrix
	calls  []string
}

func (s *server) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, name)
}

func (s *server) Add(_ *vrpc.Call, a, b int32) (int32, error) { return a + b, nil }

func (s *server) Swap(_ *vrpc.Call, arg, res *rfc.Outer) error {
	*res = *arg
	res.Inner.A, res.Inner.B.Deep = int32(arg.Inner.B.Deep), int64(arg.Inner.A)
	return nil
}

func (s *server) Upper(_ *vrpc.Call, text string) (string, error) {
	if text == "" {
		return "", errors.New("nothing to do")
	}
	return strings.ToUpper(text), nil
}

func (s *server) Split(_ *vrpc.Call, text string, sep int8) (rfc.StringList, error) {
	var list rfc.StringList
	for _, part := range strings.Split(text, string(rune(sep))) {
		list = append(list, rfc.StringListElem{S: part})
	}
	return list, nil
}

func (s *server) Reverse(_ *vrpc.Call, arg *rfc.Linked) (*rfc.Linked, error) {
	var list *rfc.Linked
	for ; arg != nil; arg = arg.Next {
		list = &rfc.Linked{N: arg.N, Next: list}
	}
	return list, nil
}

func (s *server) Set(_ *vrpc.Call, m *rfc.Matrix, _ rfc.TypeName, _ rfc.OtherName) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.matrix = *m
	return nil
}

func (s *server) Read(*vrpc.Call) (rfc.Celsius, error) { return 36.5, nil }

func (s *server) Precise(_ *vrpc.Call, q *xdr.Quadruple, negate bool, res *xdr.Quadruple) error {
	*res = *q
	if negate {
		res[0] ^= 0x80
	}
	return nil
}

func (s *server) Get(_ *vrpc.Call, res *rfc.Matrix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*res = s.matrix
	return nil
}

func (s *server) Client_(_ *vrpc.Call, arg *rfc.Outer, _ *rfc.Precise) error {
	s.note(string(arg.MarshalXDR_))
	return nil
}

func (s *server) Last(_ *vrpc.Call, list rfc.LinkedPtr) (rfc.LinkedPtr, error) {
	for list != nil && list.Next != nil {
		list = list.Next
	}
	return list, nil
}

func (s *server) Exact(_ *vrpc.Call, arg, res *rfc.Precise) error { *res = *arg; return nil }

// second carries out version 2.
type second struct{}

func (second) Add(_ *vrpc.Call, a, b int64) (int64, error) { return a + b, nil }

// start returns a transport to a server of both versions.
func start(t *testing.T, s *server) vrpc.Transport {
	t.Helper()
	srv := vrpc.NewServer(nil)
	t.Cleanup(func() { srv.Close() })
	for _, p := range []*vrpc.Program{rfc.RfcV1Program(s), rfc.RfcV2Program(second{})} {
		if err := srv.Register(p); err != nil {
			t.Fatal(err)
		}
	}
	return vrpc.Direct(t.Context(), srv)
}

func outer() *rfc.Outer {
	return &rfc.Outer{
		Inner: rfc.OuterInner{A: 1, B: rfc.OuterInnerB{Deep: 2}}, Kind: rfc.OuterB, MarshalXDR_: []byte("abc"),
		Body:  rfc.OuterBody{Func: 4, Several: &[2]xdr.Quadruple{{1}, {2}}},
		Small: []int16{-3, 4}, Tiny: new(uint8), Flags: []bool{true, false}, Maybe: &rfc.OuterMaybe{S: "maybe"},
		Strings: rfc.StringList{{S: "one"}},
		R:       rfc.Recursive{More: true, Item: &rfc.RecursiveItem{N: 5, Next: &rfc.Recursive{}}},
	}
}

// TestProcedures: each kind of argument and result comes through, from the client's method
// to the server's and back.
func TestProcedures(t *testing.T) {
	s := &server{}
	transport := start(t, s)
	c := rfc.NewRfcV1Client_(transport, nil)
	ctx := t.Context()
	check := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), want %+v", name, got, err, want)
		}
	}
	check("NULL", nil, nil, c.Null(ctx))
	sum, err := c.Add(ctx, 3, -5)
	check("ADD", sum, int32(-2), err)
	want := outer()
	want.Inner.A, want.Inner.B.Deep = 2, 1
	var res rfc.Outer
	err = c.Swap(ctx, outer(), &res)
	check("SWAP", &res, want, err)
	text, err := c.Upper(ctx, "bobnet")
	check("UPPER", text, "BOBNET", err)
	list, err := c.Split(ctx, "a,b", ',')
	check("SPLIT", list, rfc.StringList{{S: "a"}, {S: "b"}}, err)
	reversed, err := c.Reverse(ctx, &rfc.Linked{N: 1, Next: &rfc.Linked{N: 2}})
	check("REVERSE", reversed, &rfc.Linked{N: 2, Next: &rfc.Linked{N: 1}}, err)
	reversed, err = c.Reverse(ctx, nil)
	check("REVERSE of nothing", reversed, (*rfc.Linked)(nil), err)
	m := rfc.Matrix{{1, 2, 3}, {4, 5, 6}}
	check("SET", nil, nil, c.Set(ctx, &m, rfc.TypeName_, nil))
	var got rfc.Matrix
	err = c.Get(ctx, &got)
	check("GET", got, m, err)
	degrees, err := c.Read(ctx)
	check("READ", degrees, rfc.Celsius(36.5), err)
	var q xdr.Quadruple
	err = c.Precise(ctx, &xdr.Quadruple{0x40}, true, &q)
	check("PRECISE", q, xdr.Quadruple{0xc0}, err)
	check("CLIENT", nil, nil, c.Client_(ctx, outer(), &rfc.Precise{}))
	last, err := c.Last(ctx, &rfc.Linked{N: 1, Next: &rfc.Linked{N: 2}})
	check("LAST", last, &rfc.Linked{N: 2}, err)
	var p rfc.Precise
	err = c.Exact(ctx, &rfc.Precise{7}, &p)
	check("EXACT", p, rfc.Precise{7}, err)
	long, err := rfc.NewRfcV2Client(transport, nil).Add(ctx, 1<<40, 1)
	check("ADD of version 2", long, int64(1<<40+1), err)
	if !slices.Equal(s.calls, []string{"abc"}) {
		t.Errorf("the server has seen %q", s.calls)
	}
}

// TestProcedureErrors: what is wrong is told, and leaves nothing behind for the next call.
func TestProcedureErrors(t *testing.T) {
	c := rfc.NewRfcV1Client_(start(t, &server{}), nil)
	ctx := t.Context()
	if text, err := c.Upper(ctx, ""); !errors.Is(err, vrpc.SystemErr) || text != "" {
		t.Errorf("an error of the server: %q, %v", text, err)
	}
	bad := outer()
	bad.Body.Several = nil
	if err := c.Swap(ctx, bad, new(rfc.Outer)); !errors.Is(err, xdr.ErrNil) || !strings.Contains(err.Error(), "union outer.body, several") {
		t.Errorf("an arm that is nil: %v", err)
	}
	bad = outer()
	bad.Kind = 3
	if err := c.Swap(ctx, bad, new(rfc.Outer)); !errors.Is(err, xdr.ErrValue) {
		t.Errorf("a value that the enumeration has not: %v", err)
	}
	if _, err := c.Split(ctx, strings.Repeat("x", 21), 'y'); !errors.Is(err, xdr.ErrTooLong) {
		t.Errorf("a text beyond its bound: %v", err)
	}
	if _, err := c.Split(ctx, "a,b,c,d", ','); !errors.Is(err, vrpc.SystemErr) {
		t.Errorf("a result beyond its bound: %v", err)
	}
	loop := &rfc.Linked{}
	loop.Next = loop
	if _, err := c.Reverse(ctx, loop); !errors.Is(err, xdr.ErrCycle) {
		t.Errorf("an endless list: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if sum, err := c.Add(gone, 1, 2); !errors.Is(err, context.Canceled) || sum != 0 {
		t.Errorf("a cancelled call: %d, %v", sum, err)
	}
	if sum, err := c.Add(ctx, 1, 2); err != nil || sum != 3 {
		t.Errorf("a call afterwards: %d, %v", sum, err)
	}
}

// TestCallsAllocateNothing: where arguments and results are no slices or strings, generated code
// takes no memory beside what package vrpc takes for a call of nothing.
func TestCallsAllocateNothing(t *testing.T) {
	if need.Race {
		return // the race detector makes pools drop what is put into them
	}
	c := rfc.NewRfcV1Client_(start(t, &server{}), nil)
	ctx := t.Context()
	var q xdr.Quadruple
	var m rfc.Matrix
	ping := testing.AllocsPerRun(1000, func() { c.Client.Ping(ctx) })
	for name, call := range map[string]func() error{
		"ADD":     func() error { _, err := c.Add(ctx, 1, 2); return err },
		"PRECISE": func() error { return c.Precise(ctx, &q, true, &q) },
		"GET":     func() error { return c.Get(ctx, &m) },
	} {
		n := testing.AllocsPerRun(1000, func() {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		})
		if n > ping {
			t.Errorf("%s: %v allocations, a call of nothing has %v", name, n, ping)
		}
	}
}

// networks are those that C programs have.
var networks = []string{"tcp", "udp"}

// echo is a server of all.x.
type echo struct{}

func (echo) Echo(_ *vrpc.Call, arg, res *all.Everything) error {
	*res = *arg
	return nil
}

// overVMMC returns a client of srv over VMMC, from another process of it in shared memory.
func overVMMC(t *testing.T, srv *vrpc.Server) *vrpc.Client {
	t.Helper()
	var ps [2]*vmmc.Process
	for i := range ps {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		if ps[i], err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: uint32(i), Job: fmt.Sprint(t.Name(), os.Getpid())}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ps[i].Close() })
	}
	name, err := srv.ListenVMMC(ps[0], 1, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := vrpc.DialVMMC(t.Context(), ps[1], name, all.AllProg, all.AllV1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rpc.Close() })
	return rpc
}

// keepCalling has a client echo values, one after another, until stop is called, which fails
// the test if an answer was another or there was none.
func keepCalling(t *testing.T, rpc *vrpc.Client) (stop func()) {
	t.Helper()
	client := all.AllV1Client{Client: rpc}
	_, messages := framed(t, 10)
	over, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for seed := 0; ; seed = (seed + 1) % len(messages) {
			var arg, res all.Everything
			err := xdr.Unmarshal(messages[seed], &arg)
			if err == nil {
				err = client.Echo(t.Context(), &arg, &res)
			}
			if got, err2 := xdr.Append(nil, &res); err != nil || err2 != nil || !bytes.Equal(got, messages[seed]) {
				done <- fmt.Errorf("seed %d: %x, %v, %v", seed, got, err, err2)
				return
			}
			select {
			case <-over:
				done <- nil
				return
			default:
			}
		}
	}()
	return func() {
		close(over)
		if err := <-done; err != nil {
			t.Error("over VMMC meanwhile:", err)
		}
	}
}

// TestCClient: a C client calls a server of generated code, while a client over VMMC calls it.
func TestCClient(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c", "-l"}, "../testdata/c/client.c")
	srv := vrpc.NewServer(nil)
	defer srv.Close()
	if err := srv.Register(all.AllV1Program(echo{})); err != nil {
		t.Fatal(err)
	}
	defer keepCalling(t, overVMMC(t, srv))()
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			addr, err := srv.Listen(network, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, err := net.SplitHostPort(addr.String())
			if err != nil {
				t.Fatal(err)
			}
			through(t, 50, program, network, port)
		})
	}
}

// TestCServer: a generated client calls a C server.
func TestCServer(t *testing.T) {
	program := ctest.Build(t, "../testdata/all/all.x", []string{"-c", "-m"}, "../testdata/c/server.c")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		cmd.Wait() // which says that it was killed
	}()
	ports := make([]int, len(networks))
	if _, err := fmt.Fscan(out, &ports[0], &ports[1]); err != nil {
		t.Fatal("the C server's ports:", err)
	}
	_, messages := framed(t, 50)
	for i, network := range networks {
		t.Run(network, func(t *testing.T) {
			rpc, err := vrpc.Dial(ctx, network, fmt.Sprintf("127.0.0.1:%d", ports[i]), all.AllProg, all.AllV1, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rpc.Close()
			client := all.AllV1Client{Client: rpc}
			if err := client.AllNull(ctx); err != nil {
				t.Fatal(err)
			}
			for seed, msg := range messages {
				var arg, res all.Everything
				if err := xdr.Unmarshal(msg, &arg); err != nil {
					t.Fatal(err)
				}
				if err := client.Echo(ctx, &arg, &res); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if got, err := xdr.Append(nil, &res); err != nil || !bytes.Equal(got, msg) {
					t.Fatalf("seed %d: the C server says\n%x, sent\n%x (%v)", seed, got, msg, err)
				}
			}
		})
	}
}
