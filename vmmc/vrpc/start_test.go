package vrpc_test

import (
	"bytes"
	"context"
	"errors"
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
					t.Fatalf("round %d, call %d: %d octets, %v", round, i, len(back.data), err)
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
