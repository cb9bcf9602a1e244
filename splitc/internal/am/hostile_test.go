package am_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/am"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
)

// TestHostile: a rank that knows the run's nonce sends requests of any handler with any
// arguments and data, and answers with anything. The other one counts what makes no
// sense, writes nothing but its heap and what its own operations name, and lives.
func TestHostile(t *testing.T) {
	attack := func(f *layertest.Foe, c layer.Config) error { return (&hostile{Foe: f}).attacker(c) }
	layertest.Hostile(t, seeds, &layertest.Hostility{Open: am.Open, Attack: attack, Check: counted, MaxControl: layer.MaxControl})
}

// counted wants that something was counted, and that no handler has panicked.
func counted(l layer.Layer) error {
	if s := l.Stats(); s.Refused+s.Strays == 0 {
		return errors.New("nothing was counted")
	}
	if n := am.Panics(l); n != 0 {
		return fmt.Errorf("%d handlers have panicked", n)
	}
	return nil
}

// TestForgedCredits: a rank answers all requests as it would a store, or not at all, which
// gives their credits back. More operations than there are credits must not come of that: they
// end with an error that says so.
func TestForgedCredits(t *testing.T) {
	for _, forge := range []func(t endpoint.Token){func(t endpoint.Token) { t.Reply(am.StoreDone) }, func(endpoint.Token) {}} {
		attack := func(f *layertest.Foe, c layer.Config) error { return (&hostile{Foe: f, forge: forge}).attacker(c) }
		blamed := func(l layer.Layer) error {
			if err := l.Poll(); !errors.Is(err, am.ErrUnanswered) {
				return fmt.Errorf("the layer has failed with %w, want %w", err, am.ErrUnanswered)
			}
			if n := l.Counters().Outstanding; n > 80 {
				return fmt.Errorf("%d operations are outstanding", n)
			}
			return nil
		}
		layertest.Hostile(t, seeds, &layertest.Hostility{Open: am.Open, Attack: attack, Check: blamed, MaxControl: layer.MaxControl})
	}
}

// TestReturnedReply: a reply that comes back is the failure of the rank that it was for. If its
// destination is not known as a rank's, as that of a rank that dies before it was found, or a
// stranger's, it is no failure.
func TestReturnedReply(t *testing.T) {
	names := []endpoint.Name{{}, {Addr: ethertype.Addr{Port: 7}, ID: 1}, {Addr: ethertype.Addr{Port: 8}, ID: 1}}
	for _, name := range names[1:] {
		var failed *job.RankError
		err := am.Return(names, &endpoint.Returned{Dest: -1, To: name, Reason: endpoint.ReasonUnreachable})
		if !errors.As(err, &failed) || names[failed.Rank] != name {
			t.Errorf("a reply to %v is the failure %v", name, err)
		}
	}
	for _, name := range []endpoint.Name{{}, {Addr: names[2].Addr, ID: 2}} {
		if err := am.Return(names, &endpoint.Returned{Dest: -1, To: name, Reason: endpoint.ReasonUnreachable}); err != nil {
			t.Errorf("a reply to %v, which is no rank's, is the failure %v", name, err)
		}
	}
}

// hostile is the hostile rank of a job of two.
type hostile struct {
	*layertest.Foe
	forge func(t endpoint.Token) // answers all requests, if it is not nil
}

const hostileRequests = 1000

var bg = context.Background()

// attacker is what an endpoint can do.
func (h *hostile) attacker(c layer.Config) error {
	n, err := endpoint.Open(context.Background(), &endpoint.Config{NIC: c.NIC, Credits: endpoint.AMVIACredits, Logger: c.Logger})
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
		answer := func(t endpoint.Token, args []uint32, data []byte) {
			if h.forge == nil {
				h.answer(t, args)
			} else if !h.Done {
				h.forge(t)
			}
		}
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
	defer func() { h.Over = true }()
	err := ep.Request(bg, 0, 1, 1)
	for h.forge != nil && err == nil && !h.Done {
		if _, err = bundle.Poll(); err == nil {
			err = h.Sleep(time.Millisecond)
		}
	}
	for i := 0; i < hostileRequests && err == nil && !h.Over; i++ {
		ctx, cancel := c.NIC.WithTimeout(bg, 30*time.Second)
		handler, args := uint8(1+h.RNG.IntN(22)), h.args()
		if h.RNG.IntN(2) == 0 {
			err = ep.Request(ctx, 0, handler, args...)
		} else {
			err = ep.RequestMedium(ctx, 0, handler, h.data(), args...)
		}
		cancel()
		if err == nil {
			_, err = bundle.Poll()
		}
	}
	h.Over = true
	for !h.Done && err == nil {
		if _, err = bundle.Poll(); err == nil {
			err = h.Sleep(time.Millisecond)
		}
	}
	return err
}

// answer replies with anything: most often what looks like an answer.
func (h *hostile) answer(t endpoint.Token, args []uint32) {
	reply := h.args()
	if len(args) > 0 && len(reply) > 0 && h.RNG.IntN(4) > 0 {
		reply[0] = args[0]
	}
	handler := uint8(1 + h.RNG.IntN(21)) // 21 says that the owner refuses, which ends the program
	if handler == 21 && h.RNG.IntN(200) > 0 {
		return
	}
	if h.RNG.IntN(2) == 0 {
		t.Reply(handler, reply...)
	} else {
		t.ReplyMedium(handler, h.data(), reply...)
	}
}

// args returns arguments: any, or such as make sense.
func (h *hostile) args() []uint32 {
	a := make([]uint32, h.RNG.IntN(endpoint.MaxShort+1))
	for i := range a {
		switch h.RNG.IntN(4) {
		case 0:
			a[i] = h.RNG.Uint32()
		case 1:
			a[i] = uint32(h.RNG.IntN(5))
		case 2:
			a[i] = uint32(h.RNG.IntN(2 * layertest.FoeHeap))
		default:
			a[i] = -uint32(h.RNG.IntN(5000))
		}
	}
	return a
}

// data returns up to a medium message of anything.
func (h *hostile) data() []byte {
	b := make([]byte, h.RNG.IntN(endpoint.DefaultMaxMedium+1))
	for i := range b {
		b[i] = byte(h.RNG.Uint32())
	}
	return b
}
