package paper

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// depth is the number of descriptors of a ping-pong in each direction.
const depth = 4

// pingPong makes two machines send a message of size bytes back and forth over a reliable VI,
// rounds times. It returns half the time of a round in nanoseconds. A few rounds before these are
// not counted.
func pingPong(ctx context.Context, e *Ethernet, size, rounds int) (oneWay float64, err error) {
	const warm = 8
	w := e.world()
	a, b := e.machine(w, "a"), e.machine(w, "b")
	var at ethertype.Addr
	var ended [2]error
	w.Go("b", func() { ended[1] = answer(ctx, w, b, &at, size, warm+rounds) })
	w.Go("a", func() {
		p, err := openPlayer(a, 1, size)
		if err != nil {
			ended[0] = err
			return
		}
		defer p.nic.Close()
		if ended[0] = p.vi.Connect(ctx, at, nil); ended[0] != nil {
			return
		}
		var began int64
		for i := range warm + rounds {
			if i == warm {
				began = w.Now()
			}
			if ended[0] = errors.Join(p.send(), p.receive(ctx)); ended[0] != nil {
				return
			}
			if ended[0] = w.Sleep(e.Turn); ended[0] != nil {
				return
			}
		}
		oneWay = float64(w.Now()-began) / float64(2*rounds)
		ended[0] = p.vi.Disconnect()
	})
	if err := errors.Join(w.Run(), ended[0], ended[1]); err != nil {
		return 0, fmt.Errorf("ping-pong of %d bytes over %s: %w", size, e.Name, err)
	}
	return oneWay, nil
}

// answer sends each message back.
func answer(ctx context.Context, w *sim.World, m *machine, at *ethertype.Addr, size, rounds int) error {
	p, err := openPlayer(m, 2, size)
	if err != nil {
		return err
	}
	defer p.nic.Close()
	l, err := p.nic.Listen(0)
	if err != nil {
		return err
	}
	*at = l.Addr()
	req, err := l.Wait(ctx)
	if err != nil {
		return err
	}
	if err := req.Accept(ctx, p.vi); err != nil {
		return err
	}
	for range rounds {
		if err := p.receive(ctx); err != nil {
			return err
		}
		if err := w.Sleep(m.e.Turn); err != nil {
			return err
		}
		if err := p.send(); err != nil {
			return err
		}
	}
	for _, err := p.vi.RecvWait(ctx); p.vi.Err() == nil; _, err = p.vi.RecvWait(ctx) { // its last message goes, and the other side ends
		if err != nil {
			break
		}
	}
	return nil
}

// player is one side of a ping-pong.
type player struct {
	nic   *vipl.NIC
	vi    *vipl.VI
	sends [depth]vipl.Descriptor
	recvs [depth]vipl.Descriptor
	next  int
}

func openPlayer(m *machine, seed uint64, size int) (*player, error) {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: m, Seed: seed})
	if err != nil {
		return nil, err
	}
	p := &player{nic: nic}
	mem, handle, memErr := nic.AllocMem(2*max(size, 1), nil)
	var viErr error
	p.vi, viErr = nic.CreateVI(&vipl.Attributes{Reliability: reliability.ReliableDelivery}, nil, nil)
	if err := errors.Join(memErr, viErr); err != nil {
		return nil, errors.Join(err, nic.Close())
	}
	for i := range depth {
		p.sends[i].Segs = []vipl.Segment{{Data: mem[:size], Handle: handle}}
		p.recvs[i].Segs = []vipl.Segment{{Data: mem[size : 2*size], Handle: handle}}
		if err := p.vi.PostRecv(&p.recvs[i]); err != nil {
			return nil, errors.Join(err, nic.Close())
		}
	}
	return p, nil
}

// send posts a message, and reaps completed sends.
func (p *player) send() error {
	d := &p.sends[p.next%depth]
	p.next++
	if err := p.vi.PostSend(d); err != nil {
		return err
	}
	for {
		if _, err := p.vi.SendDone(); errors.Is(err, vipl.ErrNotDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// receive waits for a message.
func (p *player) receive(ctx context.Context) error {
	d, err := p.vi.RecvWait(ctx)
	if err != nil {
		return err
	}
	return p.vi.PostRecv(d)
}
