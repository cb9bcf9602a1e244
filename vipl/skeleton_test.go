package vipl_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestOneMessage takes one message of each size through every room, at each
// level: posted, framed, carried, acknowledged, placed, completed.
func TestOneMessage(t *testing.T) {
	for _, level := range levels {
		for _, size := range []int{0, 1, 64, 256, 257, 1452, 1453, 5000, 100_000, 1 << 20} {
			t.Run(fmt.Sprintf("%v/%d", level, size), func(t *testing.T) {
				attr := &vipl.Attributes{Reliability: level}
				in := &inbox{count: 1, size: size, seed: 1}
				err := pair(sim.Options{Seed: 1, Bandwidth: 10e9}, attr,
					func(v *vipl.VI) error { return sendAll(v, 1, size, 1) }, in.post, in.receive)
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// inbox receives count messages of size bytes and checks each.
type inbox struct {
	count, size int
	seed        uint64
	depth       int // receives that it keeps posted; 0 means inboxDepth
	buffers     *buffers
}

// inboxDepth is how many receives most inboxes keep posted; outboxDepth is how
// many sends a sender has under way, less by enough that it never overruns
// the inbox in a world where processing takes no time.
const (
	inboxDepth  = 512
	outboxDepth = 16
)

func (in *inbox) post(v *vipl.VI) (err error) {
	if in.buffers, err = newBuffers(v.NIC(), min(in.count, cmp.Or(in.depth, inboxDepth)), in.size); err != nil {
		return err
	}
	for i := range in.buffers.descs {
		if err := v.PostRecv(&in.buffers.descs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (in *inbox) receive(v *vipl.VI) error {
	for i := range in.count {
		d, err := v.RecvWait(bg)
		if err != nil {
			return fmt.Errorf("receive %d: %w (%v)", i, err, v.Err())
		}
		if int(d.Length) != in.size {
			return fmt.Errorf("message %d has %d bytes, want %d", i, d.Length, in.size)
		}
		if err := check(in.seed, i, d.Segs[0].Data); err != nil {
			return err
		}
		if i+len(in.buffers.descs) < in.count {
			if err := v.PostRecv(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendAll sends what an inbox expects.
func sendAll(v *vipl.VI, count, size int, seed uint64) error {
	out, err := newBuffers(v.NIC(), min(count, outboxDepth), size)
	if err != nil {
		return err
	}
	for i := range count {
		d := &out.descs[i%len(out.descs)]
		if i >= len(out.descs) {
			if _, err := v.SendWait(bg); err != nil {
				return fmt.Errorf("send %d: %w (%v)", i, err, v.Err())
			}
		}
		content(seed, i, d.Segs[0].Data)
		if err := v.PostSend(d); err != nil {
			return err
		}
	}
	return drain(v)
}

// drain waits until every posted send has completed.
func drain(v *vipl.VI) error {
	for {
		_, err := v.SendWait(bg)
		if err == vipl.ErrQueueEmpty {
			return nil
		}
		if err != nil {
			return fmt.Errorf("last sends: %w (%v)", err, v.Err())
		}
	}
}
