package vrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// One goroutine has several calls under way, by every transport, and waits for them in any
// order.
func TestStart(t *testing.T) {
	every(t, func(t *testing.T, _ string, c *vrpc.Client) {
		const calls = 5
		var started [calls]vrpc.Started
		data := bytes.Repeat([]byte("abcdefgh"), 1000)
		for round := range 10 {
			for i := range started {
				var err error
				if started[i], err = c.Start(t.Context(), procEcho, &blob{data[:1000*i+round]}); err != nil {
					t.Fatal(err)
				}
			}
			for k := range started {
				i := (k*3 + round) % calls
				var back blob
				var r vrpc.Reply
				var err error
				if k%2 == 0 {
					r, err = started[i].WaitInPlace(t.Context(), &back)
				} else {
					err = started[i].Wait(t.Context(), &back)
				}
				if err != nil || !bytes.Equal(back.data, data[:1000*i+round]) {
					t.Fatalf("round %d, call %d: %d bytes, %v", round, i, len(back.data), err)
				}
				if k%2 == 0 {
					r.Release()
				}
			}
		}
	})
}

// Calls that were started fail as others do: by the server's answer, with the context they are
// waited for with, and with the client.
func TestStartFails(t *testing.T) {
	every(t, func(t *testing.T, network string, c *vrpc.Client) {
		start := func(proc uint32, args xdr.Marshaler) vrpc.Started {
			t.Helper()
			s, err := c.Start(t.Context(), proc, args)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		if err := start(99, xdr.Void{}).Wait(t.Context(), &xdr.Void{}); !errors.Is(err, vrpc.ProcUnavail) {
			t.Errorf("a procedure that is not there: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Start(ended, procSilent, xdr.Void{}); !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
		if network == "direct" {
			return // its calls are over when the procedure returns
		}
		if err := start(procSilent, xdr.Void{}).Wait(ended, &xdr.Void{}); !errors.Is(err, context.Canceled) {
			t.Errorf("waited for with a context that has ended: %v", err)
		}
		s := start(procSilent, xdr.Void{})
		c.Close()
		if err := s.Wait(t.Context(), &xdr.Void{}); !errors.Is(err, vrpc.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if s, err := c.Start(t.Context(), procSilent, xdr.Void{}); err == nil { // by a transport that has it sent aside
			if err = s.Wait(t.Context(), &xdr.Void{}); !errors.Is(err, vrpc.ErrClosed) {
				t.Errorf("begun after Close: %v", err)
			}
		} else if !errors.Is(err, vrpc.ErrClosed) {
			t.Errorf("begun after Close: %v", err)
		}
	})
}

// A call whose credential the server does not know any more is made again, with a better one.
func TestStartRefreshes(t *testing.T) {
	s := newServer(t, vrpc.ServerConfig{Shorthands: 1})
	auth := sysAuth(t, vrpc.SysCred{MachineName: "one"})
	c := newDirect(t, s, &vrpc.ClientConfig{Auth: auth})
	var who vrpc.SysCred
	if err := c.Call(t.Context(), procWho, xdr.Void{}, &who); err != nil {
		t.Fatal(err)
	}
	other := newDirect(t, s, &vrpc.ClientConfig{Auth: sysAuth(t, vrpc.SysCred{MachineName: "two"})})
	if err := other.Call(t.Context(), procWho, xdr.Void{}, &who); err != nil { // which takes the place of the first
		t.Fatal(err)
	}
	call, err := c.Start(t.Context(), procWho, xdr.Void{})
	if err == nil {
		err = call.Wait(t.Context(), &who)
	}
	if err != nil || who.MachineName != "one" {
		t.Errorf("%q, %v", who.MachineName, err)
	}
}

// What was started allocates nothing over VMMC.
func TestStartAllocatesNothing(t *testing.T) {
	if need.Race {
		t.Skip("the race detector's sync.Pool drops objects at random")
	}
	c := listenVMMC(t, newServer(t, vrpc.ServerConfig{}), nil)
	arg, res := &pair{1, 2}, &number{}
	calls := func() {
		var started [4]vrpc.Started
		for i := range started {
			var err error
			if started[i], err = c.Start(t.Context(), procAdd, arg); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range started {
			if err := s.Wait(t.Context(), res); err != nil || res.n != 3 {
				t.Fatal(res.n, err)
			}
		}
	}
	for range 100 {
		calls()
	}
	if n := alloctest.PerRun(t, 200, calls); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// placed is a program with results in place: ECHO returns its argument and READ the memory of
// the server, and calls used when that is not needed any more.
func placed(t *testing.T, s *vrpc.Server, inPlace bool, data []byte, used func()) (prog uint32) {
	t.Helper()
	prog = testProg + 9
	err := s.Register(&vrpc.Program{Number: prog, Version: 1, InPlace: inPlace, ResultsInPlace: true, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "ECHO", func(c *vrpc.Call, arg, res *blob) error {
			res.data = arg.data
			return nil
		}),
		vrpc.Proc(2, "READ", func(c *vrpc.Call, arg *number, res *blob) error {
			res.data = data[:arg.n]
			c.OnSent(used)
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// Results in place are what they are otherwise, by every transport: of any length, also when they
// lie in the arguments, with calls one after another and side by side.
func TestResultsInPlace(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		for _, parallel := range []int{1, 4} {
			for _, network := range []string{"tcp", "vmmc", "direct"} {
				t.Run(fmt.Sprint(network, inPlace, parallel), func(t *testing.T) {
					s := newServer(t, vrpc.ServerConfig{Parallel: parallel, Ring: 40 << 10})
					prog := placed(t, s, inPlace, nil, nil)
					var c *vrpc.Client
					if network == "direct" {
						c = newDirect(t, s, nil)
					} else {
						c = listen(t, s, network, &vrpc.ClientConfig{Ring: 40 << 10})
					}
					var group sync.WaitGroup
					for g := range byte(3) {
						group.Go(func() { echoPlaced(t, c.Program(prog, 1), g) })
					}
					group.Wait()
				})
			}
		}
	}
}

func echoPlaced(t *testing.T, c *vrpc.Client, g byte) {
	var back blob
	for i, n := range []int{0, 1, 8191, 8192, 8193, 14000, 16000, 40000, 100001, 8200, 100, 9000, 9000} {
		data := bytes.Repeat([]byte{byte(i), 2, 3, 4, 5, 6, g}, n/7+1)[:n]
		if err := c.Call(t.Context(), 1, &blob{data}, &back); err != nil || !bytes.Equal(back.data, data) {
			t.Errorf("%d bytes: %d, %v", n, len(back.data), err)
			return
		}
	}
}

// A procedure hears when its results are not needed any more, and may change them then.
func TestOnSent(t *testing.T) {
	for _, network := range []string{"tcp", "vmmc"} {
		t.Run(network, func(t *testing.T) {
			s := newServer(t, vrpc.ServerConfig{})
			data := make([]byte, 50000)
			times := make(chan byte, 100)
			prog := placed(t, s, true, data, func() {
				times <- data[0]
				for i := range data {
					data[i]++
				}
			})
			c := listen(t, s, network, nil).Program(prog, 1)
			var back blob
			for i := range byte(20) {
				n := []int32{50000, 100}[i%2]
				if err := c.Call(t.Context(), 2, &number{n}, &back); err != nil || !bytes.Equal(back.data, bytes.Repeat([]byte{i}, int(n))) {
					t.Fatalf("call %d: %d bytes, the first is %d, %v", i, len(back.data), back.data[0], err)
				}
				if got := <-times; got != i {
					t.Fatalf("call %d has heard of call %d", i, got)
				}
			}
			if len(times) > 0 {
				t.Error("a call was told more than once")
			}
		})
	}
}

// Calls and replies of more than a piece allocate nothing, and are put together by one copy.
func TestLongCallsAllocateNothing(t *testing.T) {
	if need.Race {
		t.Skip("the race detector's sync.Pool drops objects at random")
	}
	s := newServer(t, vrpc.ServerConfig{Ring: 16 << 10})
	c := listenVMMC(t, s, &vrpc.ClientConfig{Ring: 16 << 10})
	data, back := &blob{make([]byte, 100000)}, &blob{}
	call := func() {
		if err := c.Call(t.Context(), procEcho, data, back); err != nil {
			t.Fatal(err)
		}
	}
	inPlace := func() {
		*back = blob{}
		r, err := c.CallInPlace(t.Context(), procEcho, data, back)
		if err != nil || len(back.data) != len(data.data) {
			t.Fatal(len(back.data), err)
		}
		r.Release()
	}
	for name, f := range map[string]func(){"copied": call, "in place": inPlace} {
		for range 30 {
			f()
		}
		if n := alloctest.PerRun(t, 50, f); n >= 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
