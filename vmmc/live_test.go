package vmmc_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// scopeOf is a scope of this run of the test alone: shared memory is one segment for all of the host.
func scopeOf(t testing.TB) string { return fmt.Sprint(t.Name(), os.Getpid()) }

// liveProcess returns a process over shared memory, in real time.
func liveProcess(t *testing.T, number uint32) *vmmc.Process {
	t.Helper()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
	check(t, err)
	t.Cleanup(func() { nic.Close() })
	p, err := vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: number, Job: scopeOf(t), Logger: quiet})
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestComputing: in real time, handlers run and imports are granted while the exporter's
// program does nothing at all; unexport works beside a program that waits.
func TestComputing(t *testing.T) {
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	var ps [2]*vmmc.Process
	for i := range ps {
		ps[i] = liveProcess(t, uint32(i))
	}
	told := make(chan uint32, 100)
	buf := make([]byte, 100000)
	e, err := ps[0].Export(buf, 1, vmmc.Everybody, func(vmmc.Notification) {
		told <- atomic.LoadUint32(vmmc.Word(buf, len(buf)-vmmc.WordSize)) // the next message may be writing it
	})
	check(t, err)
	i, err := ps[1].Import(ctx, vmmc.Name{Process: 0, ID: 1})
	check(t, err)
	src := make([]byte, len(buf))
	for k := range uint32(20) {
		binary.NativeEndian.PutUint32(src[len(src)-vmmc.WordSize:], k+1)
		check(t, ps[1].SendMsgWithNotify(ctx, src, i.Addr()))
		select {
		case got := <-told:
			if got != k+1 {
				t.Fatalf("notification %d finds %d", k, got)
			}
		case <-ctx.Done():
			t.Fatal("no handler has run")
		}
	}
	check(t, e.Unexport(ctx))
	if err := ps[1].SendMsg(ctx, src[:8], i.Addr()); err == nil {
		t.Error("a send to what is not exported any more")
	}
}
