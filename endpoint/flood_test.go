package endpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestFloodBothSides: two endpoints flood each other with full credits and all
// kinds of requests, answered by some kind of reply or by none, at any loss. Neither
// may ever stop, and every credit comes back.
func TestFloodBothSides(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		opts := sim.Options{Seed: seed, Loss: 0.3 * rng.Float64() * rng.Float64(), Dup: 0.02, Reorder: 0.05, Corrupt: 0.01}
		cfg := endpoint.Config{Credits: floodCredits[seed%uint64(len(floodCredits))], MaxMedium: 512, PeerTimeout: time.Minute}
		w := newWorld(opts)
		finished := 0
		for side := range 2 {
			name, other := fmt.Sprint("side ", side), fmt.Sprint("side ", 1-side)
			w.node(name, cfg, func(n *endpoint.Node) error {
				f := &flooder{seed: seed*2 + uint64(side), credits: cfg.Credits}
				return f.run(w, n, name, other, &finished)
			})
		}
		return w.run()
	})
}

var floodCredits = []endpoint.Credits{{Short: 4}, {Short: 1}, endpoint.AMVIACredits, {Short: 2, Medium: 1, Bulk: 1}}

// flooder is one side.
type flooder struct {
	*party
	seed    uint64
	credits endpoint.Credits
	asked   int // own requests that want an answer
	ended   int // and are answered
	handled int // of the other's
}

const (
	floodCount = 60 // requests of all kinds that a side sends
	floodTimes = 4  // and before these, if short ones have credits of their own, so many short ones for each
)

// floodMute reports whether the request of a number is not answered: one in eight.
func floodMute(id uint32) bool { return id/4%8 == 0 }

func (f *flooder) run(w *world, n *endpoint.Node, name, other string, finished *int) (err error) {
	if f.party, err = newParty(n); err != nil {
		return err
	}
	f.ep.SetSegment(make([]byte, 20_000))
	big := make([]byte, 5000)
	f.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		f.handled++
		if floodMute(args[0]) {
			return
		}
		switch args[0] % 4 { // not of the request's size
		case 0:
			t.Reply(hReply, args...)
		case 1:
			t.ReplyMedium(hReply, big[:512], args...)
		case 2:
			t.ReplyBulk(hReply, big, 1000, args...)
		case 3:
			t.ReplyBulk(hReply, big[:100], 1000, args...)
		}
	})
	f.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { f.ended++ })
	w.board[name] = f.ep.Name()
	if err := f.ep.Map(0, w.find(other), 5); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(f.seed, 2))
	if f.credits.Medium > 0 { // or those for short requests would never be in use all together
		for range floodTimes * f.credits.Short {
			if err := f.send(0, rng.Uint32(), big); err != nil {
				return err
			}
		}
		if s := n.Stats(); s.Stalls == 0 || s.StallTime <= 0 {
			return fmt.Errorf("%d short requests have waited %d times, and for %v, for one of %d credits", floodTimes*f.credits.Short, s.Stalls, s.StallTime, f.credits.Short)
		}
	}
	for range floodCount {
		if err := f.send(rng.IntN(5), rng.Uint32(), big); err != nil {
			return err
		}
	}
	if err := f.until(n, "all answers", func() bool { return f.ended == f.asked }); err != nil {
		return fmt.Errorf("%d of %d requests answered, %d of the other's handled: %w", f.ended, f.asked, f.handled, err)
	}
	f.drain(n)
	*finished++
	for *finished < 2 {
		f.rest(n)
	}
	if len(f.returned) > 0 {
		return fmt.Errorf("%v came back for %v: %v", f.returned[0].Op, f.returned[0].Reason, f.returned[0].Err)
	}
	return nil
}

func (f *flooder) send(what int, id uint32, big []byte) error {
	if what > 3 || !floodMute(id) { // a get is always answered
		f.asked++
	}
	switch what {
	case 0:
		return f.ep.Request(bg, 0, hEcho, id)
	case 1:
		return f.ep.RequestMedium(bg, 0, hEcho, big[:300], id)
	case 2:
		return f.ep.RequestBulk(bg, 0, hEcho, big[:200], 0, id)
	case 3:
		return f.ep.RequestBulk(bg, 0, hEcho, big, 500, id)
	}
	return f.ep.Get(bg, 0, hReply, 0, 3000, 4000, id)
}

// TestExtraReceive: a request that comes while the handler of the one before is
// running, whose reply has been received already, finds a receive posted.
func TestExtraReceive(t *testing.T) {
	w := newWorld(sim.Options{})
	var server *party
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
		server = s
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
			t.ReplyMedium(hReply, data)
			for range 10 { // the reply leaves, and the next request comes in
				w.Sleep(100 * time.Microsecond)
				serverNode(server).NIC().Poll()
			}
			if !bytes.Equal(data, payload) {
				panic("the payload has been overwritten in its handler")
			}
		})
	}, func(n *endpoint.Node, c *party) error {
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for range 20 {
			if err := c.ep.RequestMedium(bg, 0, hEcho, payload); err != nil {
				return err
			}
		}
		if err := c.until(n, "replies", func() bool { return replies+len(c.returned) == 20 }); err != nil {
			return err
		}
		if len(c.returned) > 0 || serverNode(server).Stats().Panics > 0 {
			return fmt.Errorf("%d came back: %+v", len(c.returned), c.returned)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
