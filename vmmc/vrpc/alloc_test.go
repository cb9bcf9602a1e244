package vrpc_test

import (
	"context"
	"testing"

	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// A call without strings allocates nothing, on either side, by any transport; opaque
// arguments and results are decoded into the memory of those before.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's sync.Pool drops objects at random")
	}
	every(t, func(t *testing.T, network string, c *vrpc.Client) {
		ctx := t.Context()
		if network == "vmmc" {
			ctx = context.WithoutCancel(ctx) // to sleep until one ends takes memory there
		}
		allocateNothing(ctx, t, c)
	})
	auth := sysAuth(t, vrpc.SysCred{MachineName: "host", GIDs: []uint32{1, 2}})
	for _, shorthands := range []int{0, 10} {
		s := newServer(t, vrpc.ServerConfig{Shorthands: shorthands})
		allocateNothing(t.Context(), t, newDirect(t, s, &vrpc.ClientConfig{Auth: auth}))
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
	if n := testing.AllocsPerRun(500, call); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
