package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// intruder is a program that speaks to a node by bare VIs, and sends what it
// likes.
type intruder struct {
	nic  *vipl.NIC
	vi   *vipl.VI
	mem  []byte
	h    vipl.MemHandle
	send vipl.Descriptor
	rng  *rand.Rand
}

const intruderReceives = 16

func newIntruder(nic *vipl.NIC, seed uint64) (*intruder, error) {
	x := &intruder{nic: nic, mem: make([]byte, (intruderReceives+1)*endpoint.MessageSize), rng: rand.New(rand.NewPCG(seed, 3))}
	var err error
	x.h, err = nic.RegisterMem(x.mem, nil)
	return x, err
}

func (x *intruder) newVI() (err error) {
	if x.vi != nil {
		x.vi.Close()
	}
	x.send = vipl.Descriptor{}
	if x.vi, err = x.nic.CreateVI(nil, nil, nil); err != nil {
		return err
	}
	for i := range intruderReceives {
		part := x.mem[(i+1)*endpoint.MessageSize:][:endpoint.MessageSize]
		if err := x.vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: part, Handle: x.h}}}); err != nil {
			return err
		}
	}
	return nil
}

// say sends a message and takes what has come meanwhile. It reports false when
// the connection is gone.
func (x *intruder) say(msg []byte) bool {
	n := copy(x.mem[:endpoint.MessageSize], msg)
	x.send.Segs = []vipl.Segment{{Data: x.mem[:n], Handle: x.h}}
	if x.vi.PostSend(&x.send) != nil {
		return false
	}
	if _, err := x.vi.SendWait(bg); err != nil {
		return false
	}
	for {
		d, err := x.vi.RecvDone()
		if errors.Is(err, vipl.ErrNotDone) || errors.Is(err, vipl.ErrQueueEmpty) {
			return true
		}
		if err != nil || x.vi.PostRecv(d) != nil {
			return false
		}
	}
}

// mutant returns a message that is nearly right, most of the time.
func (x *intruder) mutant(tag endpoint.Tag) []byte {
	r := x.rng
	args := make([]uint32, r.IntN(4))
	var data []byte
	if r.IntN(2) == 0 {
		data = bytes.Repeat([]byte{0xEE}, r.IntN(200))
	}
	length := uint32(len(data))
	if r.IntN(3) == 0 {
		length = r.Uint32() >> r.IntN(32)
	}
	msg := endpoint.Message(uint8(r.IntN(endpoint.Kinds)), uint8(10+r.IntN(4)), uint16(r.IntN(5)), uint32(r.IntN(3)), tag, 0,
		r.Uint64()>>r.IntN(64), length, args, data)
	for range r.IntN(3) {
		msg[r.IntN(len(msg))] ^= 1 << r.IntN(8)
	}
	return msg[:len(msg)-r.IntN(2)*r.IntN(len(msg))]
}

// TestHostileClient: without the tag no handler runs and nothing is written,
// whatever is sent; and honest clients are served as if nothing were.
func TestHostileClient(t *testing.T) {
	const tag = 0x1234_5678_9abc_def1
	messages := 5000
	if testing.Short() {
		messages = 500
	}
	seeds(t, 20, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed})
		segment := make([]byte, 10_000)
		ran := 0
		count := func(endpoint.Token, []uint32, []byte) { ran++ }
		w.pair(endpoint.Config{PeerTimeout: time.Second}, func(s *party) {
			s.ep.SetTag(tag)
			s.ep.SetSegment(segment)
			for h := uint8(10); h < 14; h++ {
				s.ep.SetHandler(h, count)
			}
			endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r + 1, nil })
		}, func(n *endpoint.Node, c *party) error {
			to, _, _ := c.ep.Translation(0)
			c.ep.Map(1, to, tag)
			x, err := newIntruder(n.NIC(), seed)
			if err != nil {
				return err
			}
			for i, connected := 0, false; i < messages; i++ {
				if !connected {
					if err := x.newVI(); err != nil {
						return err
					}
					if err := x.vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, 4)); err != nil {
						return err
					}
				}
				connected = x.say(x.mutant(tag + 1))
			}
			x.vi.Close()
			for i := range int32(10) {
				if got, err := endpoint.Call[int32, int32](bg, c.ep, 1, 1, i); err != nil || got != i+1 {
					return fmt.Errorf("an honest call after it: %d, %w", got, err)
				}
			}
			return nil
		})
		if err := w.run(); err != nil {
			return err
		}
		if ran > 0 || !bytes.Equal(segment, make([]byte, len(segment))) {
			return fmt.Errorf("%d handlers ran, or the segment was written to", ran)
		}
		return nil
	})
}

// TestHostileServer: whatever a server answers, each request ends once.
func TestHostileServer(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed})
		done := false
		w.Go("intruder", func() {
			nic, err := vipl.Open(&vipl.Config{Link: w.Station("intruder"), Seed: seed + 1})
			if err == nil {
				err = serveBadly(w, nic, seed, &done)
				nic.Close()
			}
			if err != nil {
				w.errs = append(w.errs, err)
			}
		})
		w.node("client", endpoint.Config{PeerTimeout: time.Second}, func(n *endpoint.Node) error {
			defer func() { done = true }()
			c, err := newParty(n)
			if err != nil {
				return err
			}
			c.ep.SetSegment(make([]byte, 1000))
			for h := uint8(10); h < 14; h++ {
				c.ep.SetHandler(h, func(t endpoint.Token, args []uint32, data []byte) {})
			}
			c.ep.Map(0, w.find("intruder"), 5)
			big := make([]byte, 6000)
			for i := range uint32(200) {
				if err := sendSome(c, i, big); err != nil {
					return err
				}
			}
			return nil
		})
		return w.run()
	})
}

// serveBadly accepts connections and answers each message with several mutants.
func serveBadly(w *world, nic *vipl.NIC, seed uint64, done *bool) error {
	x, err := newIntruder(nic, seed)
	if err != nil {
		return err
	}
	l, err := nic.Listen(0)
	if err != nil {
		return err
	}
	w.board["intruder"] = endpoint.Name{Addr: l.Addr(), ID: 1, Incarnation: 1}
	for !*done {
		ctx, cancel := nic.WithTimeout(bg, 10*time.Millisecond)
		r, err := l.Wait(ctx)
		cancel()
		if err != nil {
			continue
		}
		if err := x.newVI(); err != nil {
			return err
		}
		if r.Accept(bg, x.vi) != nil {
			continue
		}
		for range 3 + x.rng.IntN(20) {
			if *done || !x.say(x.mutant(endpoint.TagAll)) {
				break
			}
		}
		x.vi.Disconnect()
	}
	return nil
}
