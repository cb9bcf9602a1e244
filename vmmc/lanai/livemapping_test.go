package lanai_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestLiveMapped: hosts that are opened without routes, as by default, find each other in
// real time, over a cable between two network namespaces.
func TestLiveMapped(t *testing.T) {
	veth := vethtest.New(t, 1500)
	var hosts [2]*lanai.Card
	for side := range hosts {
		err := veth.In(side, func() (err error) {
			hosts[side], err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hosts[side].Close() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	memory, told := make([]byte, 10_000), make(chan bool, 1)
	var work sync.WaitGroup
	for side, body := range []func(p *vmmc.Process) error{
		func(p *vmmc.Process) error {
			if _, err := p.Export(memory, 7, vmmc.Everybody, func(vmmc.Notification) { told <- true }); err != nil {
				return err
			}
			return p.Await(ctx, func() bool { return len(told) == 1 })
		},
		func(p *vmmc.Process) error {
			to, err := p.Import(ctx, vmmc.Name{ID: 7}) // before the cards have mapped
			if err != nil {
				return err
			}
			return p.SendMsgWithNotify(ctx, bytes.Repeat([]byte{5}, len(memory)), to.Addr())
		},
	} {
		work.Go(func() {
			p, err := vmmc.Open(t.Context(), &vmmc.Config{Card: hosts[side], Process: uint32(side)})
			if err == nil {
				defer p.Close()
				err = body(p)
			}
			if err != nil {
				t.Errorf("side %d: %v", side, err)
			}
		})
	}
	work.Wait()
	if memory[len(memory)-1] != 5 {
		t.Error("the message is not there")
	}
	for side, h := range hosts {
		if s := h.Snapshot(); !s.Mapped || s.Nodes != 2 || s.Stats.RouteErrors+s.LongRoutes != 0 {
			t.Errorf("host %d: mapped %v, %d nodes, %+v", side, s.Mapped, s.Nodes, s.Stats)
		}
	}
}
