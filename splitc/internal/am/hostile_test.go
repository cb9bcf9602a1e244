package am_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/am"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostile: a rank that knows the run's nonce sends requests of any handler with any
// arguments and data, and answers with anything. The other one counts what makes no
// sense, writes nothing but its heap and what its own operations name, and lives.
func TestHostile(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		h := &hostile{World: sim.New(sim.Options{Seed: seed, Limit: 10 * time.Minute}), rng: rand.New(rand.NewPCG(seed, 5))}
		for me, fn := range []func(c layer.Config) error{h.victim, h.attacker} {
			station := h.Station(fmt.Sprint("rank ", me))
			h.Go(station.String(), func() {
				if err := h.rank(me, station, fn); err != nil {
					h.errs = append(h.errs, fmt.Errorf("rank %d: %w", me, err))
				}
			})
		}
		err := h.Run()
		return errors.Join(append(h.errs, err)...)
	})
}

// hostile is a job of two ranks, of which the second is hostile.
type hostile struct {
	*sim.World
	rng  *rand.Rand
	errs []error
	over bool // the attacker has ended
	done bool // the victim has
}

const (
	hostileHeap     = 128 << 10
	hostileRequests = 1000
)

var bg = context.Background()

func (h *hostile) rank(me int, station *sim.Station, fn func(c layer.Config) error) error {
	nic, err := vipl.Open(&vipl.Config{Link: station, Seed: uint64(me) + 1})
	if err != nil {
		return err
	}
	defer nic.Close()
	m, err := job.Join(bg, &job.Config{Name: "hostile", Rank: me, Size: 2, NIC: nic}, job.Program{Name: "hostile", Version: 1})
	if err != nil {
		return err
	}
	defer m.Fail(errors.New("the test is over"))
	return fn(layer.Config{Member: m, NIC: nic, Rank: me, Procs: 2, HeapSize: hostileHeap, Watch: layer.NewWatch(nic, m, time.Minute), Logger: slog.New(slog.DiscardHandler)})
}

// bounds is the victim's side above: it wants what a layer promises.
type bounds struct{ err error }

func (b *bounds) Call(from int, _ uint32, args, result []byte) int {
	if from != 1 || len(args) > layer.MaxCall || len(result) < layer.MaxCall {
		b.err = fmt.Errorf("a call of rank %d with %d bytes, and room for %d", from, len(args), len(result))
	}
	return copy(result, args)
}

func (b *bounds) Control(from int, msg []byte) {
	if from != 1 || len(msg) > endpoint.DefaultMaxMedium {
		b.err = fmt.Errorf("a control message of rank %d with %d bytes", from, len(msg))
	}
}

// victim gets, puts, stores and calls, and looks at what is left.
func (h *hostile) victim(c layer.Config) error {
	defer func() { h.done = true }()
	b := &bounds{}
	c.Handler = b
	l, err := am.Open(bg, c)
	if err != nil {
		return err
	}
	defer l.Close()
	guarded := bytes.Repeat([]byte{0xEE}, 20_000)
	dst := guarded[100:][:10_000:10_000]
	for i := 0; !h.over; i++ {
		for _, ask := range []func() error{
			func() error { return l.Get(bg, 1, dst[:1+i*37%len(dst)], 4096) },
			func() error { return l.Put(bg, 1, 4096, dst[:1+i*53%len(dst)]) },
			func() error { return l.Store(bg, 1, 4096, dst[:8]) },
			func() error { return l.Call(bg, 1, 1, dst[:5], dst[:layer.MaxCall]) },
			l.Poll,
			func() error { return l.Wait(c.Watch.Slice()) },
		} {
			if err := ask(); err != nil { // it may say that the owner refuses: that is the end of a program
				if !errors.Is(err, job.ErrRankFailed) {
					return err
				}
				h.over = true
				break
			}
			if n := l.Counters().Outstanding; n < 0 || n > 2000 {
				return fmt.Errorf("%d operations are outstanding", n)
			}
		}
	}
	if !bytes.Equal(guarded[:100], guarded[15_000:][:100]) || !bytes.Equal(guarded[10_100:], bytes.Repeat([]byte{0xEE}, len(guarded)-10_100)) {
		return errors.New("memory beside the destination of gets has changed")
	}
	if s := l.Stats(); s.Refused+s.Strays == 0 {
		return errors.New("nothing was counted")
	}
	if n := am.Panics(l); n != 0 {
		return fmt.Errorf("%d handlers have panicked", n)
	}
	return b.err
}

// attacker is what an endpoint can do.
func (h *hostile) attacker(c layer.Config) error {
	n, err := endpoint.Open(&endpoint.Config{NIC: c.NIC, Credits: endpoint.AMVIACredits, Logger: c.Logger})
	if err != nil {
		return err
	}
	defer n.Close()
	bundle, err := n.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	nonce := c.Member.Identity().Nonce
	ep.SetTag(endpoint.Tag(nonce))
	ep.SetReturnHandler(func(*endpoint.Returned) {})
	for i := range 255 {
		answer := func(t endpoint.Token, args []uint32, data []byte) { h.answer(t, args) }
		if err := ep.SetHandler(uint8(i+1), answer); err != nil {
			return err
		}
	}
	if err := ep.Publish(fmt.Sprintf("splitc/%016x/0/1", nonce)); err != nil {
		return err
	}
	var name endpoint.Name
	for {
		ctx, cancel := c.NIC.WithTimeout(bg, 50*time.Millisecond)
		name, err = n.Find(ctx, fmt.Sprintf("splitc/%016x/0/0", nonce))
		cancel()
		if err == nil {
			break
		}
		if err := h.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	if err := ep.Map(0, name, endpoint.Tag(nonce)); err != nil {
		return err
	}
	return h.attack(c, ep, bundle)
}

// attack says who it is, and then anything.
func (h *hostile) attack(c layer.Config, ep *endpoint.Endpoint, bundle *endpoint.Bundle) error {
	defer func() { h.over = true }()
	err := ep.Request(bg, 0, 1, 1)
	for i := 0; i < hostileRequests && err == nil && !h.over; i++ {
		ctx, cancel := c.NIC.WithTimeout(bg, 30*time.Second)
		handler, args := uint8(1+h.rng.IntN(18)), h.args()
		if h.rng.IntN(2) == 0 {
			err = ep.Request(ctx, 0, handler, args...)
		} else {
			err = ep.RequestMedium(ctx, 0, handler, h.data(), args...)
		}
		cancel()
		if err == nil {
			_, err = bundle.Poll()
		}
	}
	h.over = true
	for !h.done && err == nil {
		if _, err = bundle.Poll(); err == nil {
			err = h.Sleep(time.Millisecond)
		}
	}
	return err
}

// answer replies with anything: most often what looks like an answer.
func (h *hostile) answer(t endpoint.Token, args []uint32) {
	reply := h.args()
	if len(args) > 0 && len(reply) > 0 && h.rng.IntN(4) > 0 {
		reply[0] = args[0]
	}
	handler := uint8(1 + h.rng.IntN(16)) // 16 says that the owner refuses, which ends the program
	if handler == 16 && h.rng.IntN(200) > 0 {
		return
	}
	if h.rng.IntN(2) == 0 {
		t.Reply(handler, reply...)
	} else {
		t.ReplyMedium(handler, h.data(), reply...)
	}
}

// args returns arguments: any, or such as make sense.
func (h *hostile) args() []uint32 {
	a := make([]uint32, h.rng.IntN(endpoint.MaxShort+1))
	for i := range a {
		switch h.rng.IntN(4) {
		case 0:
			a[i] = h.rng.Uint32()
		case 1:
			a[i] = uint32(h.rng.IntN(5))
		case 2:
			a[i] = uint32(h.rng.IntN(2 * hostileHeap))
		default:
			a[i] = -uint32(h.rng.IntN(5000))
		}
	}
	return a
}

// data returns up to a medium message of anything.
func (h *hostile) data() []byte {
	b := make([]byte, h.rng.IntN(endpoint.DefaultMaxMedium+1))
	for i := range b {
		b[i] = byte(h.rng.Uint32())
	}
	return b
}
