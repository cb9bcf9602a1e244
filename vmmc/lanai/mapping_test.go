package lanai_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// mapped is a card with a timing model whose routes a mapper finds.
func mapped() lanai.Config {
	return lanai.Config{
		Card:   myrinet.CardConfig{Timing: myrinet.PCITiming()},
		Mapper: &myrinet.MapperOptions{Period: 10 * time.Millisecond, Timeout: 200 * time.Microsecond},
	}
}

// process runs body with a process at host i.
func (n *network) process(i int, number uint32, body func(p *vmmc.Process) error) {
	n.Go(fmt.Sprint("process ", number), func() {
		p, err := vmmc.Open(context.Background(), &vmmc.Config{Card: n.hosts[i], Process: number})
		if err == nil {
			defer p.Close()
			err = body(p)
		}
		if err != nil {
			n.t.Errorf("process %d: %v", number, err)
		}
	})
}

// TestMapped: hosts that know nothing of the network find each other by the mapping
// program, which VMMC's then replaces; a process that asks for an import before that gets
// it. A host that comes later is found, too, and the others are when they have another way.
func TestMapped(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 11})
	first, second := n.sw, n.fabric.Switch("r")
	var ways [2]*myrinet.Cable
	for i := range ways {
		var err error
		if ways[i], err = n.fabric.Join(first.Port(6+i), second.Port(6+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if n.host(i, mapped()).Snapshot().Mapped {
			t.Fatalf("host %d has VMMC's program before it has mapped", i)
		}
	}
	var writers int
	board := make([]byte, 3*8000)
	ctx, cancel := n.hosts[0].WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run := func(i int, fn func(p *vmmc.Process) error) { n.process(i, uint32(i), fn) }
	write := func(i int) func(p *vmmc.Process) error {
		return func(p *vmmc.Process) error {
			to, err := p.Import(ctx, vmmc.Name{ID: 7})
			if err != nil {
				return err
			}
			return errors.Join(p.SendMsgWithNotify(ctx, bytes.Repeat([]byte{byte(i)}, 8000), to.Addr()+vmmc.ProxyAddr(i*8000)), to.Unimport(ctx))
		}
	}
	run(0, func(p *vmmc.Process) error {
		_, err := p.Export(board, 7, vmmc.Everybody, func(vmmc.Notification) { writers++ })
		for _, more := range []func(){
			func() { run(1, write(1)) },
			func() { n.sw = second; n.host(2, mapped()); run(2, write(2)) },
			func() { ways[0].Cut(); run(2, write(2)) },
			func() { ways[0].Mend(); ways[1].Cut(); run(2, write(2)) },
		} {
			more()
			for had := writers; err == nil && writers == had; {
				err = p.Await(ctx, func() bool { return writers > had })
			}
		}
		p.Close()
		return errors.Join(err, n.Sleep(time.Second)) // what the others say at the end arrives
	})
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 2; i++ {
		if !bytes.Equal(board[i*8000:][:8000], bytes.Repeat([]byte{byte(i)}, 8000)) {
			t.Errorf("what process %d has written is not there", i)
		}
	}
	for i, h := range n.hosts {
		s := h.Snapshot()
		if err := empty(h); err != nil || !s.Mapped || s.Nodes != 3 || s.Mapper == nil || s.Stats.RouteErrors+s.LongRoutes != 0 {
			t.Errorf("host %d: %v; it knows %d nodes, counts %+v", i, err, s.Nodes, s.Stats)
		}
	}
}

// TestMappedAlone: processes of a host write to each other though there is no other host,
// and though they begin before the card has looked for some.
func TestMappedAlone(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 12})
	h := n.host(0, mapped())
	ctx, cancel := h.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	memory, told := make([]byte, 4096), false
	for i, body := range []func(p *vmmc.Process) error{
		func(p *vmmc.Process) error {
			if _, err := p.Export(memory, 7, vmmc.Everybody, func(vmmc.Notification) { told = true }); err != nil {
				return err
			}
			return p.Await(ctx, func() bool { return told })
		},
		func(p *vmmc.Process) error {
			to, err := p.Import(ctx, vmmc.Name{ID: 7})
			if err != nil {
				return err
			}
			return p.SendMsgWithNotify(ctx, bytes.Repeat([]byte{5}, 4096), to.Addr())
		},
	} {
		n.process(0, uint32(i), body)
	}
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
	if memory[4095] != 5 {
		t.Error("the message is not there")
	}
}

// TestMappedCrowd: a host that has no room for all nodes that its mapper finds uses those
// that fit, and counts that.
func TestMappedCrowd(t *testing.T) {
	n := newNetwork(t, myrinet.Options{Seed: 13})
	cfg := mapped()
	cfg.Nodes = 3
	for i := range 4 {
		n.host(i, cfg)
	}
	if err := n.Sleep(time.Second); err != nil {
		t.Fatal(err)
	}
	for i, h := range n.hosts {
		if s := h.Snapshot(); !s.Mapped || s.Nodes != 3 || s.Stats.RouteErrors == 0 {
			t.Errorf("host %d: mapped %v, %d nodes, %d tables did not fit; it has room for 3 of 4", i, s.Mapped, s.Nodes, s.Stats.RouteErrors)
		}
	}
}
