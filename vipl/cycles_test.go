package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/internal/leaktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/vipl"
)

// cycleWorkers is how many cycles run at the same time: most of the time they wait
// for the kernel to close packet sockets.
const cycleWorkers = 24

// TestCycles opens NICs on a veth or on one host, connects VIs with completion
// queues, sends a message through memory of either kind and closes it all, again
// and again: nothing is left behind. Every other cycle leaves to NIC.Close what it can.
func TestCycles(t *testing.T) {
	express := vipl.Config{Driver: "ring", XDP: ring.On, Long: ring.Off}
	plain := vipl.Config{Driver: "ring", XDP: ring.Off, Long: ring.Off}
	for _, c := range []struct {
		name  string
		cfgs  []vipl.Config // in turns
		sides [2]int
	}{
		{"ring", []vipl.Config{{Driver: "ring"}}, [2]int{0, 1}},
		{"ways", []vipl.Config{express, plain}, [2]int{0, 1}},
		{"packet", []vipl.Config{{Driver: "packet"}}, [2]int{0, 1}},
		{"udp", []vipl.Config{{Driver: "udp"}}, [2]int{0, 1}},
		{viplinks.UDP6, []vipl.Config{{Driver: "udp"}}, [2]int{0, 1}},
		{"shm", []vipl.Config{{Driver: "shm"}}, [2]int{0, 0}},
		{"host", []vipl.Config{{Driver: "udp"}}, [2]int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := vethtest.NewWithQueues(t, 1500, 2*cycleWorkers) // AF_XDP takes one for each NIC
			if c.name == viplinks.UDP6 {
				addIPv6s(t, p)
			} else {
				addIPs(t, p)
			}
			workers := cycleWorkers
			if c.sides[0] == c.sides[1] { // on one host the processors do the work
				workers = 8
			}
			leaktest.Run(t, workers, func(i int) error {
				return cycle(p, c.cfgs[i/2%len(c.cfgs)], c.sides, i%2 == 0)
			})
		})
	}
}

// cycle is one life of everything.
func cycle(p *vethtest.Pair, cfg vipl.Config, sides [2]int, tidy bool) (err error) {
	var nics [2]*vipl.NIC
	cfg.Interface = interfaceOf(cfg.Driver)
	for i, side := range sides {
		err := p.In(side, func() (err error) {
			nics[i], err = vipl.Open(context.Background(), &cfg)
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
	a, b, err := meetBound(nics, queues)
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
	if err := boundMessage(a, b, queues); err != nil {
		return err
	}
	if !tidy {
		return nil
	}
	return errors.Join(a.Disconnect(), b.Disconnect(), a.Close(), b.Close(), queues[0].Close(), queues[1].Close())
}

// meet connects new VIs of two NICs, as join does.
func meet(nics [2]*vipl.NIC) (a, b *vipl.VI, err error) { return meetBound(nics, [2]*vipl.CQ{}) }

// meetBound does so with VIs whose queues of both kinds are bound to completion
// queues.
func meetBound(nics [2]*vipl.NIC, queues [2]*vipl.CQ) (a, b *vipl.VI, err error) {
	l, err := nics[0].Listen(0)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = nics[0].CreateVI(nil, queues[0], queues[0]); err != nil {
		return nil, nil, err
	}
	if b, err = nics[1].CreateVI(nil, queues[1], queues[1]); err != nil {
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

// message is one from the library's memory to the user's.
type message struct {
	in            []byte
	outMem, inMem vipl.MemHandle
}

func postMessage(from, to *vipl.VI) (m message, err error) {
	var out []byte
	if out, m.outMem, err = from.NIC().AllocMem(5000, nil); err != nil {
		return m, err
	}
	m.in = make([]byte, 5000)
	if m.inMem, err = to.NIC().RegisterMem(m.in, nil); err != nil {
		return m, err
	}
	content(1, 1, out)
	if err := to.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: m.in, Handle: m.inMem}}}); err != nil {
		return m, err
	}
	return m, from.PostSend(&vipl.Descriptor{Segs: []vipl.Segment{{Data: out, Handle: m.outMem}}})
}

// oneMessage goes from one VI to another.
func oneMessage(from, to *vipl.VI) error {
	m, err := postMessage(from, to)
	if err != nil {
		return err
	}
	if _, err := to.RecvWait(bg); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if _, err := from.SendWait(bg); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return errors.Join(check(1, 1, m.in), to.NIC().DeregisterMem(m.inMem))
}

// boundMessage does so between VIs that are bound to completion queues. The
// library's memory is given back here: NIC.Close keeps the addresses of what it
// finds.
func boundMessage(from, to *vipl.VI, queues [2]*vipl.CQ) error {
	m, err := postMessage(from, to)
	if err != nil {
		return err
	}
	if err := errors.Join(entry(queues[1], to, true), entry(queues[0], from, false)); err != nil {
		return err
	}
	return errors.Join(check(1, 1, m.in), from.NIC().DeregisterMem(m.outMem), to.NIC().DeregisterMem(m.inMem))
}

// entry waits for the only entry of a completion queue, which is of a VI's queue
// of receives or of sends, and takes the descriptor.
func entry(q *vipl.CQ, v *vipl.VI, recv bool) error {
	got, isRecv, err := q.Wait(bg)
	if err != nil || got != v || isRecv != recv {
		return fmt.Errorf("completion queue: of receives: %t, want %t, of the VI: %t: %w", isRecv, recv, got == v, err)
	}
	take := v.SendDone
	if recv {
		take = v.RecvDone
	}
	if _, err := take(); err != nil {
		return fmt.Errorf("receive: %t: %w", recv, err)
	}
	return nil
}
