package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCycles opens NICs on a veth or on one host, connects VIs with completion
// queues, sends a message through memory of either kind and closes it all, again
// and again: nothing is left behind. Every other cycle leaves to NIC.Close what it can.
func TestCycles(t *testing.T) {
	vipl.OpenLoadavg()
	for _, c := range []struct {
		name, driver string
		sides        [2]int
	}{
		{"ring", "ring", [2]int{0, 1}},
		{"packet", "packet", [2]int{0, 1}},
		{"udp", "udp", [2]int{0, 1}},
		{"shm", "shm", [2]int{0, 0}},
		{"host", "udp", [2]int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			leaktest.Run(t, 8, func(i int) error { return cycle(p, c.driver, c.sides, i%2 == 0) })
		})
	}
}

// cycle is one life of everything.
func cycle(p *vethtest.Pair, driver string, sides [2]int, tidy bool) (err error) {
	var nics [2]*vipl.NIC
	for i, side := range sides {
		err := p.In(side, func() (err error) {
			nics[i], err = vipl.Open(&vipl.Config{Interface: interfaceOf(driver), Driver: driver})
			return err
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, nics[i].Close()) }()
	}
	var queues [2]*vipl.CQ
	for side, n := range nics {
		if queues[side], err = n.CreateCQ(16); err != nil {
			return err
		}
	}
	a, b, err := meet(nics)
	if err != nil {
		return err
	}
	v, err := nics[0].CreateVI(nil, queues[0], queues[0])
	if err != nil {
		return err
	}
	if err := v.Close(); err != nil {
		return err
	}
	if err := oneMessage(a, b); err != nil {
		return err
	}
	if !tidy {
		return nil
	}
	return errors.Join(a.Disconnect(), b.Disconnect(), a.Close(), b.Close(), queues[0].Close(), queues[1].Close())
}

// meet connects new VIs of two NICs, as join does.
func meet(nics [2]*vipl.NIC) (a, b *vipl.VI, err error) {
	l, err := nics[0].Listen(0)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = nics[0].CreateVI(nil, nil, nil); err != nil {
		return nil, nil, err
	}
	if b, err = nics[1].CreateVI(nil, nil, nil); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	accept := func() error {
		r, err := l.Wait(ctx)
		if err == nil {
			err = r.Accept(bg, a)
		}
		return err
	}
	connect := func() error {
		err := b.Connect(bg, l.Addr(), nil)
		if err != nil {
			cancel()
		}
		return err
	}
	return a, b, all(accept, connect)
}

// oneMessage goes from the library's memory to the user's.
func oneMessage(from, to *vipl.VI) error {
	out, outMem, err := from.NIC().AllocMem(5000, nil)
	if err != nil {
		return err
	}
	in := make([]byte, 5000)
	inMem, err := to.NIC().RegisterMem(in, nil)
	if err != nil {
		return err
	}
	content(1, 1, out)
	if err := to.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: in, Handle: inMem}}}); err != nil {
		return err
	}
	if err := from.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: out, Handle: outMem}}}); err != nil {
		return err
	}
	if _, err := to.RecvWait(bg); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if _, err := from.SendWait(bg); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return errors.Join(check(1, 1, in), to.NIC().DeregisterMem(inMem))
}
