package vrpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// A call without strings allocates nothing, on either side, by any transport; opaque
// arguments and results are decoded into the memory of those before.
func TestCallsAllocateNothing(t *testing.T) {
	if need.Race {
		t.Skip("the race detector's sync.Pool drops objects at random")
	}
	every(t, func(t *testing.T, network string, c *vrpc.Client) {
		allocateNothing(t.Context(), t, c)
	})
	auth := sysAuth(t, vrpc.SysCred{MachineName: "host", GIDs: []uint32{1, 2}})
	for _, shorthands := range []int{0, 10} {
		s := newServer(t, vrpc.ServerConfig{Shorthands: shorthands})
		allocateNothing(t.Context(), t, newDirect(t, s, &vrpc.ClientConfig{Auth: auth}))
	}
}

// A call over VMMC that falls asleep, with a context that may end, allocates nothing either.
func TestSleepingCallsAllocateNothing(t *testing.T) {
	if need.Race {
		t.Skip("the race detector's sync.Pool drops objects at random")
	}
	s := newServer(t, vrpc.ServerConfig{})
	slow := time.NewTimer(time.Hour)
	err := s.Register(&vrpc.Program{Number: testProg + 5, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(1, "SLOW", func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
			slow.Reset(3 * time.Millisecond) // a wait watches its context from 1 ms on
			<-slow.C
			return nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := listenVMMC(t, s, nil).Program(testProg+5, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := func() {
		if err := c.Call(ctx, 1, xdr.Void{}, &xdr.Void{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		call()
	}
	if n := alloctest.PerRun(t, 50, call); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

func allocateNothing(ctx context.Context, t *testing.T, c *vrpc.Client) {
	t.Helper()
	arg, res, data := &pair{1, 2}, &number{}, &blob{make([]byte, 1000)}
	call := func() {
		if err := c.Call(ctx, procAdd, arg, res); err != nil {
			t.Fatal(err)
		}
		if err := c.Call(ctx, procEcho, data, data); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // until the duplicate request cache is full
		call()
	}
	if n := alloctest.PerRun(t, 500, call); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
