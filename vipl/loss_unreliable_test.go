package vipl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestUnreliable wants of the unreliable level that each message arrives at
// most once, in order and whole, and that the connection outlives everything.
func TestUnreliable(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		const count, depth = 60, 80
		got, last := 0, -1
		attr := &vipl.Attributes{Reliability: reliability.Unreliable}
		var in *buffers
		opts := sim.Options{Seed: seed, Loss: 0.1, Dup: 0.2, Reorder: 0.2, ReorderBy: 8}
		if seed%2 == 0 {
			opts.Corrupt = 0.1
		}
		err := pair(opts, attr,
			func(v *vipl.VI) error { return sendLoose(v, count, seed) },
			func(v *vipl.VI) (err error) {
				if in, err = newBuffers(v.NIC(), depth, 9000); err != nil {
					return err
				}
				for i := range in.descs {
					if err := v.PostRecv(&in.descs[i]); err != nil {
						return err
					}
				}
				return nil
			},
			func(v *vipl.VI) error {
				driveFor(v.NIC(), time.Second)
				for ; ; got++ {
					d, err := v.RecvDone()
					if err == vipl.ErrNotDone {
						break
					} else if err != nil {
						return err
					}
					i := int(binary.BigEndian.Uint32(d.Segs[0].Data))
					if i <= last {
						return fmt.Errorf("message %d came after %d", i, last)
					}
					last = i
					if err := check(seed, i, d.Segs[0].Data[4:d.Length]); err != nil || int(d.Length) != looseSize(seed, i) {
						return fmt.Errorf("message %d with %d bytes: %w", i, d.Length, err)
					}
				}
				if v.State() != vipl.StateConnected {
					return v.Err()
				}
				return nil
			})
		if err == nil && (got == 0 || got == count) {
			err = fmt.Errorf("%d of %d messages arrived: it tests nothing", got, count)
		}
		return err
	})
}

func looseSize(seed uint64, i int) int { return 4 + int(seed*7+uint64(i)*977)%6000 }

func sendLoose(v *vipl.VI, count int, seed uint64) error {
	out, err := newBuffers(v.NIC(), 1, 9000)
	if err != nil {
		return err
	}
	driveFor(v.NIC(), 200*time.Millisecond) // until the client has the last word of the handshake
	for i := range count {
		size := looseSize(seed, i)
		binary.BigEndian.PutUint32(out.mem, uint32(i))
		content(seed, i, out.mem[4:size])
		out.descs[0].Segs = []vipl.Segment{{Data: out.mem[:size], Handle: out.h}}
		if err := v.PostSend(&out.descs[0]); err != nil {
			return err
		}
		if _, err := v.SendWait(bg); err != nil {
			return err
		}
	}
	driveFor(v.NIC(), 2*time.Second)
	return nil
}

// TestUnreliableFullLink posts more unreliable frames than the link takes at
// once: all go in the end.
func TestUnreliableFullLink(t *testing.T) {
	const count, size = 40, 20_000
	attr := &vipl.Attributes{Reliability: reliability.Unreliable}
	in := &inbox{count: count, size: size, seed: 1}
	err := pair(sim.Options{Seed: 1, Bandwidth: 100e6, TxSlots: 4}, attr,
		func(v *vipl.VI) error { return sendAll(v, count, size, 1) }, in.post, in.receive)
	if err != nil {
		t.Fatal(err)
	}
}

// busyLink always has a frame, of which nothing can be made.
type busyLink struct{ *memLink }

func (l busyLink) Recv(views [][]byte) (int, error) {
	*l.clock += 1_000_000
	views[0] = l.slots[0]
	return 1, nil
}

func (l busyLink) Ready() bool { return true }

// TestDeadlineOnBusyLink wants a wait to end in time although the link always
// has frames for others.
func TestDeadlineOnBusyLink(t *testing.T) {
	a, _ := memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: busyLink{a}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	within(t, "the echo", func() error {
		if _, err := n.Echo(bg, nobody, 8); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("echo: %w", err)
		}
		return nil
	})
}

// TestManyConnections makes more connections through one listener, one after
// another, than it can remember requests from clients that may repeat them.
func TestManyConnections(t *testing.T) {
	d := newDuo(t, nil, nil)
	l, err := d.na.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		for _, v := range connectOver(t, l, d) {
			v.Close()
		}
		d.run()
	}
}
