package vrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// scopes tells the groups of processes of tests apart.
var scopes atomic.Uint32

// processes returns processes of VMMC that find each other, over shared memory.
func processes(t testing.TB, n int) []*vmmc.Process {
	t.Helper()
	return processesOn(t, n, func(int) (*vipl.NIC, error) {
		return vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: quiet()})
	})
}

// processesOn is processes over any NICs.
func processesOn(t testing.TB, n int, open func(i int) (*vipl.NIC, error)) []*vmmc.Process {
	t.Helper()
	scope := fmt.Sprint(t.Name(), os.Getpid(), scopes.Add(1)) // of this run alone
	list := make([]*vmmc.Process, n)
	for i := range list {
		nic, err := open(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		list[i], err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: uint32(i), Job: scope, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { list[i].Close() })
	}
	return list
}

// doorID is the export at which servers are dialled.
const doorID = 100

// listenVMMC makes s answer over VMMC and returns a client.
func listenVMMC(t testing.TB, s *vrpc.Server, cfg *vrpc.ClientConfig) *vrpc.Client {
	t.Helper()
	p := processes(t, 2)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // before its process
	return dialVMMC(t, p[1], name, cfg)
}

func dialVMMC(t testing.TB, p *vmmc.Process, name vmmc.Name, cfg *vrpc.ClientConfig) *vrpc.Client {
	t.Helper()
	c, err := vrpc.DialVMMC(t.Context(), p, name, testProg, testVers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Messages of many lengths over rings that hold a fraction of them, both ways, several
// callers at once.
func TestMappedLengths(t *testing.T) {
	for _, ring := range []int{1, 10000, 0} {
		t.Run(fmt.Sprint(ring), func(t *testing.T) {
			c := listenVMMC(t, newServer(t, vrpc.ServerConfig{Ring: ring}), &vrpc.ClientConfig{Ring: ring})
			var group sync.WaitGroup
			for g := range byte(3) {
				group.Go(func() { echoLengths(t, c, g) })
			}
			group.Wait()
		})
	}
}

func echoLengths(t *testing.T, c *vrpc.Client, g byte) {
	var back blob
	for _, n := range []int{0, 1, 3, 63, 64, 65, 1000, 1500, 1536, 4096, 9000, 65536, 98304, 300000} {
		data := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, g}, n/7+1)[:n]
		if err := c.Call(t.Context(), procEcho, &blob{data}, &back); err != nil || !bytes.Equal(back.data, data) {
			t.Errorf("%d bytes: %d, %v", n, len(back.data), err)
			return
		}
	}
}

// What is longer than MaxMessage is refused by the side that sends it, or ends the connection.
func TestMappedTooLarge(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxMessage: 300000})
	c := listenVMMC(t, s, &vrpc.ClientConfig{MaxMessage: 400000})
	if err := c.Call(t.Context(), procEcho, &blob{make([]byte, 400000)}, &blob{}); !errors.Is(err, vrpc.ErrTooLarge) {
		t.Errorf("longer than the client's limit: %v", err)
	}
	if err := c.Call(t.Context(), procEcho, &blob{make([]byte, 300000)}, &blob{}); !errors.Is(err, vrpc.ErrTransport) {
		t.Errorf("longer than the server's limit: %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("after a broken connection: %v", err)
	}
	if n := s.Snapshot(); n.ConnsBroken != 1 || n.Conns != 2 {
		t.Errorf("%d broken connections of %d", n.ConnsBroken, n.Conns)
	}
}

// Arguments and results stay in the rings: what a call gets lies there until it is released, and
// the ring goes round many times with some replies held.
func TestMappedInPlace(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	err := s.Register(&vrpc.Program{Number: testProg + 5, Version: 1, InPlace: true, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "ECHO", func(_ *vrpc.Call, arg, res *blob) error {
			res.data = arg.data
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := listenVMMC(t, s, &vrpc.ClientConfig{Ring: 16 << 10}).Program(testProg+5, 1)
	data := make([]byte, 1000)
	var held []vrpc.Reply
	var seen []blob
	for i := range 200 {
		for k := range data {
			data[k] = byte(i)
		}
		var back blob
		r, err := c.CallInPlace(t.Context(), 1, &blob{data}, &back)
		if err != nil || !bytes.Equal(back.data, data) {
			t.Fatalf("call %d: %d bytes, %v", i, len(back.data), err)
		}
		held, seen = append(held, r), append(seen, back)
		if len(held) < 4 {
			continue
		}
		k := i % len(held) // not in the order in which they came
		if want := bytes.Repeat(seen[k].data[:1], 1000); !bytes.Equal(seen[k].data, want) {
			t.Fatal("a reply has changed before it was released")
		}
		held[k].Release()
		held, seen = append(held[:k], held[k+1:]...), append(seen[:k], seen[k+1:]...)
	}
	for _, r := range held {
		r.Release()
	}
}

// One server answers clients of all transports at once, on one dispatch table.
func TestAllAtOnce(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	var group sync.WaitGroup
	for _, network := range []string{"tcp", "vmmc", "udp", "unix", "direct"} {
		var c *vrpc.Client
		if network == "direct" {
			c = newDirect(t, s, nil)
		} else {
			c = listen(t, s, network, nil)
		}
		group.Go(func() {
			for i := range int32(300) {
				var sum number
				if err := c.Call(t.Context(), procAdd, &pair{i, 7}, &sum); err != nil || sum.n != i+7 {
					t.Errorf("%s: %d, %v", network, sum.n, err)
					return
				}
			}
		})
	}
	group.Wait()
	if n := s.Snapshot().Programs[0].Accepted[vrpc.Success]; n != 5*300 {
		t.Errorf("%d calls", n)
	}
}

// Servers are found by what they serve; their addresses are text for rpcbind.
func TestMappedFound(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	p := processes(t, 2)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := vrpc.DialVMMCProgram(t.Context(), p[1], testProg, testVers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	e := s.Endpoints()[0]
	if back, err := vrpc.ParseVMMC(e.Addr.String()); err != nil || back != name || e.Netid != "vmmc" || vrpc.VMMCAddr(name) != e.Addr {
		t.Errorf("%v is %v, %v, want %v", e, back, err, name)
	}
	for _, bad := range []string{"", "1/2/3", "02:00:00:00:00:01/1", "02:00:00:00:00:01/1/-1", "02:00:00:00:00:01/1/4294967296", "02:00:00:00:00:00:00:01/1/1"} {
		if got, err := vrpc.ParseVMMC(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// A process is a server and calls itself, and others of its kind.
func TestMappedItself(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	p := processes(t, 1)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := dialVMMC(t, p[0], name, nil)
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
}

// Several clients of one process dial the same server at once.
func TestMappedDialTogether(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	p := processes(t, 2)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			c, err := vrpc.DialVMMC(t.Context(), p[1], name, testProg, testVers, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// There are no more connections than allowed, and those who come too late are told.
func TestMappedMaxConns(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{MaxConns: 1})
	p := processes(t, 3)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dialVMMC(t, p[1], name, nil)
	_, err = vrpc.DialVMMC(t.Context(), p[2], name, testProg, testVers, nil)
	if !errors.Is(err, vrpc.ErrTransport) || s.Snapshot().ConnsRefused != 1 {
		t.Errorf("%v; %+v", err, s.Snapshot())
	}
}

// Whoever the policy does not allow gets no connection, nor one who dials another number.
func TestMappedPolicy(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	p := processes(t, 3)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Policy{Processes: []vmmc.Peer{p[1].Self()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dialVMMC(t, p[1], name, nil)
	if _, err := vrpc.DialVMMC(t.Context(), p[2], name, testProg, testVers, nil); !errors.Is(err, vmmc.ErrDenied) {
		t.Errorf("refused: %v", err)
	}
	if _, err := s.ListenVMMC(p[1], 0xe0000000, vmmc.Everybody); err == nil {
		t.Error("a number that is a ring's")
	}
}

// The end of either process ends the calls of the other.
func TestMappedDeath(t *testing.T) {
	for _, who := range []int{0, 1} {
		t.Run(fmt.Sprint(who), func(t *testing.T) {
			s := newServer(t, vrpc.ServerConfig{})
			running := make(chan struct{})
			if err := blocker(s, running, nil); err != nil {
				t.Fatal(err)
			}
			p := processes(t, 2)
			name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c := dialVMMC(t, p[1], name, nil)
			result := make(chan error)
			go func() { result <- c.Program(testProg+1, 1).Call(t.Context(), 1, &xdr.Void{}, &xdr.Void{}) }()
			<-running
			p[who].Close()
			if err := <-result; !errors.Is(err, vrpc.ErrTransport) {
				t.Errorf("the call under way: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // of looking for the server
			defer cancel()
			if err := c.Ping(ctx); err == nil {
				t.Error("the next call has a reply")
			}
		})
	}
}

// Calls over a network that loses, repeats, reorders and corrupts frames.
func TestMappedOverBadNetwork(t *testing.T) {
	p := processesOn(t, 2, func(i int) (*vipl.NIC, error) {
		bad := fault.Options{Seed: uint64(i) + 1, Drop: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02}
		return vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: quiet(), Wrap: func(l transport.Link) transport.Link { return fault.New(l, bad) }})
	})
	callBetween(t, p)
}

// Calls by frames of Ethernet, beside others by TCP.
func TestMappedOverEthernet(t *testing.T) {
	pair := vethtest.New(t, 1500)
	p := processesOn(t, 2, func(i int) (nic *vipl.NIC, err error) {
		err = pair.In(i, func() error {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Logger: quiet()})
			return err
		})
		return nic, err
	})
	callBetween(t, p)
}

// callBetween calls a server in one process from another one and by TCP.
func callBetween(t *testing.T, p []*vmmc.Process) {
	s := newServer(t, vrpc.ServerConfig{Ring: 32 << 10})
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // before its process
	var group sync.WaitGroup
	for g, c := range []*vrpc.Client{dialVMMC(t, p[1], name, nil), dialVMMC(t, p[1], name, nil), listen(t, s, "tcp", nil)} {
		group.Go(func() { echoLengths(t, c, byte(g)) })
	}
	group.Wait()
}

// A procedure hears when its client's process has ended, though nobody waits for the next call
// meanwhile.
func TestMappedClientGone(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{})
	running, gone := make(chan struct{}), make(chan struct{}, 1)
	err := s.Register(&vrpc.Program{Number: testProg + 1, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "HANG", func(c *vrpc.Call, _, _ *xdr.Void) error {
			close(running)
			<-c.Context().Done()
			gone <- struct{}{}
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := processes(t, 2)
	name, err := s.ListenVMMC(p[0], doorID, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	c := dialVMMC(t, p[1], name, nil)
	go c.Program(testProg+1, 1).Call(t.Context(), 1, &xdr.Void{}, &xdr.Void{})
	<-running
	p[1].Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the procedure has heard nothing")
	}
}
