package lanai_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestNoAllocations: short and long sends allocate nothing at either side, over a cable
// between two network namespaces. Of notifications only those messages do that give their room
// back, one for 16.
func TestNoAllocations(t *testing.T) {
	veth := vethtest.New(t, 1500)
	var ps [2]*vmmc.Process
	for side := range ps {
		var h *lanai.Card
		err := veth.In(side, func() (err error) {
			h, err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name,
				MAC: mac(side + 1), Routes: []myrinet.HostRoute{{To: mac(2 - side)}}, PeerTimeout: time.Minute})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		if ps[side], err = vmmc.Open(t.Context(), &vmmc.Config{Card: h, Process: uint32(side)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ps[side].Close() })
	}
	bg := context.Background()
	var notes atomic.Int64
	buf := make([]byte, 1<<16)
	if _, err := ps[0].Export(buf, 1, vmmc.Everybody, func(vmmc.Notification) { notes.Add(1) }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	to, err := ps[1].Import(ctx, vmmc.Name{Process: 0, ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	src := make([]byte, 20_000)
	for what, op := range map[string]func() error{
		"short": func() error { return ps[1].SendMsg(bg, src[:64], to.Addr()) },
		"long":  func() error { return ps[1].SendMsg(bg, src, to.Addr()+4000) },
		"notified": func() error {
			before := notes.Load()
			err := ps[1].SendMsgWithNotify(bg, src[:8], to.Addr())
			for err == nil && notes.Load() == before {
				ps[0].Poll()
			}
			return err
		},
	} {
		var failure error
		many := func() { // with the credits that go back now and then
			for range 320 {
				failure = errors.Join(failure, op())
				ps[1].Poll()
			}
		}
		for range 5000 { // until there are as many records as there may be writes under way: nobody polls
			failure = errors.Join(failure, op())
		}
		many()
		allocs, most := 0.0, 0.0
		if what == "notified" {
			allocs, most = testing.AllocsPerRun(1, many), 320/16*4
		} else {
			allocs = alloctest.PerRun(t, 1, many)
		}
		if failure != nil {
			t.Fatalf("%s: %v", what, failure)
		}
		if allocs > most {
			t.Errorf("%s: %v allocations in 320", what, allocs)
		}
	}
}
