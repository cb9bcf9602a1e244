package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/seedtest"
	"github.com/bobnet-go/bobnet/internal/wildhost"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

var seeds = seedtest.Flags("endpoint/lanai", 2)

// storm is clients that send to many endpoints of one server, over a switch, while things
// fail.
type storm struct {
	*segment
	rng     *rand.Rand
	sw      *myrinet.Switch
	cards   []*lanai.Card
	cables  []*myrinet.Cable
	cfg     lanai.Config
	names   []endpoint.Name
	handled map[[2]uint32]int // requests, by client and number
	back    map[[2]uint32]int // their replies, which came back to the server
	left    int               // clients that have not finished
	mapped  bool              // mappers find the routes
	wild    *wildhost.Host    // nil for none
	errs    []error
}

const (
	stormClients   = 3
	stormEndpoints = 84 // of the server, 12 times as many as frames
	stormRequests  = 4  // to each endpoint, of each client that talks to it
)

// weather is what happens in a storm.
type weather struct {
	faults, returns, wild bool
	bitErrors             float64
	timeout               time.Duration // of packets that are blocked, as those are that go in circles
}

func newStorm(t testing.TB, seed uint64, x weather) *storm {
	s := &storm{segment: newSegment(t, myrinet.Options{Seed: seed, BitErrors: x.bitErrors, Timeout: x.timeout}), rng: rand.New(rand.NewPCG(seed, 11)), handled: map[[2]uint32]int{}, back: map[[2]uint32]int{}}
	s.sw = s.f.Switch("x")
	if x.wild {
		s.mapped = seed%2 == 0
		s.goWild(seed)
	}
	s.cfg = lanai.Config{Channels: channels.Config{Timeout: 2_000_000, Tries: 40}}
	for i := range 1 + stormClients {
		s.cards = append(s.cards, nil)
		s.cables = append(s.cables, nil)
		s.plug(i)
	}
	if x.faults {
		s.faults()
	}
	return s
}

// wildMAC is the address of the wild host, which the others have routes to if no mapper finds
// these.
const wildMAC = 90

// goWild adds a wild host. It says to be any station, known or not.
func (s *storm) goWild(seed uint64) {
	var spy lanai.Spy
	s.wild = &wildhost.Host{Hosts: 1 + stormClients, Heard: spy.Learn}
	s.wild.Forge = func(rng *rand.Rand) (uint16, []byte) {
		from := mac(wildMAC)
		switch rng.IntN(3) {
		case 0:
			from = mac(1 + rng.IntN(1+stormClients))
		case 1:
			from = mac(1000 + rng.IntN(1000))
		}
		return lanai.TypeMessage, spy.Forge(rng, from, mac(1+rng.IntN(1+stormClients)))
	}
	if err := s.wild.Plug(s.f, s.sw, seed); err != nil {
		s.t.Fatal(err)
	}
	s.w.Go("wild", func() {
		if err := s.wild.Run(s.w, 100*time.Millisecond, 20*time.Microsecond); err != nil {
			s.errs = append(s.errs, err)
		}
	})
}

// plug gives host i a card, which has the address that its last one had.
func (s *storm) plug(i int) {
	cfg := s.cfg
	if s.mapped {
		cfg.Mapper = &myrinet.MapperOptions{Period: 10 * time.Millisecond, Timeout: 200 * time.Microsecond, Seed: s.rng.Uint64()}
	}
	for k := range 1 + stormClients {
		if k != i && !s.mapped {
			cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(k + 1), Turns: myrinet.Route{int8(k - i)}})
		}
	}
	if s.wild != nil && !s.mapped {
		cfg.Routes = append(cfg.Routes, myrinet.HostRoute{To: mac(wildMAC), Turns: myrinet.Route{int8(wildhost.Port - i)}})
	}
	if s.cables[i] != nil {
		s.cables[i].Unplug()
	}
	var port *myrinet.Port
	s.cards[i], port = s.card(i+1, cfg, nil)
	s.cables[i] = s.join(port, s.sw.Port(i))
}

// faults has things fail and return, for a while.
func (s *storm) faults() {
	for at := int64(0); at < int64(400*time.Millisecond); {
		at += s.rng.Int64N(int64(20 * time.Millisecond))
		back := at + s.rng.Int64N(int64(60*time.Millisecond))
		fail, mend := s.sw.Fail, s.sw.Restore
		if s.rng.IntN(4) > 0 {
			cable := s.cables[s.rng.IntN(len(s.cables))]
			fail, mend = cable.Cut, cable.Mend
		}
		s.w.At(s.w.Now()+at, fail)
		s.w.At(s.w.Now()+back, mend)
	}
}

// serve is the server's process.
func (s *storm) serve() error {
	p, err := newParty(s.cards[0], endpoint.Config{PeerTimeout: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	for len(s.names) < stormEndpoints {
		ep, err := p.newEndpoint()
		if err != nil {
			return err
		}
		ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
			s.handled[[2]uint32{args[0], args[1]}]++
			if len(data) > 0 {
				t.ReplyMedium(hBack, data, args...)
				return
			}
			t.Reply(hBack, args...)
		})
		ep.SetReturnHandler(func(r *endpoint.Returned) { s.back[[2]uint32{r.Args[0], r.Args[1]}]++ })
		s.names = append(s.names, ep.Name())
	}
	for s.left > 0 {
		ctx, cancel := p.n.WithTimeout(context.Background(), 10*time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return p.n.Close()
}

// ends counts how the requests of a client have ended.
type ends struct {
	answered, returned map[uint32]int
	why                map[uint32]endpoint.Reason
}

// client is the process of client i.
func (s *storm) client(i int) error { return s.clientAs(i, uint32(i)) }

// returning is that of one whose host fails, and comes back with the same address.
func (s *storm) returning(i int) error {
	if i > 1 {
		return s.client(i)
	}
	for len(s.names) < stormEndpoints {
		s.w.Sleep(time.Microsecond)
	}
	p, err := newParty(s.cards[i], endpoint.Config{})
	if err != nil {
		return err
	}
	for dest := range 30 {
		if err := p.ep.Map(dest, s.names[dest], tag); err != nil {
			return err
		}
	}
	ctx, cancel := p.n.WithTimeout(context.Background(), 15*time.Millisecond)
	defer cancel()
	for dest := 0; err == nil; dest++ {
		err = p.ep.Request(ctx, dest%30, hEcho, 99, uint32(dest))
	}
	s.plug(i)
	return s.client(i)
}

// clientAs is the process of a client on card i, whose requests bear the number id.
func (s *storm) clientAs(i int, id uint32) error {
	for len(s.names) < stormEndpoints {
		s.w.Sleep(time.Microsecond)
	}
	p, err := newParty(s.cards[i], endpoint.Config{PeerTimeout: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	defer p.n.Close()
	e := ends{map[uint32]int{}, map[uint32]int{}, map[uint32]endpoint.Reason{}}
	p.ep.SetHandler(hBack, func(_ endpoint.Token, args []uint32, _ []byte) { e.answered[args[1]]++ })
	p.ep.SetReturnHandler(func(r *endpoint.Returned) {
		e.returned[r.Args[1]]++
		e.why[r.Args[1]] = r.Reason
	})
	for k, name := range s.names {
		if k%stormClients == i-1 || k%7 == 0 {
			if _, err := p.ep.MapAny(name, tag); err != nil {
				return err
			}
		}
	}
	sent, err := s.send(p, id)
	if err != nil {
		return err
	}
	ended := func() (n uint32) {
		for k := range sent {
			if e.answered[k]+e.returned[k]+s.back[[2]uint32{id, k}] > 0 {
				n++
			}
		}
		return n
	}
	for end := s.w.Now() + int64(time.Minute); ended() < sent; {
		ctx, cancel := p.n.WithTimeout(context.Background(), 10*time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) || s.w.Now() > end {
			return fmt.Errorf("client %d, %d of %d: %w", i, ended(), sent, err)
		}
	}
	return s.judge(id, sent, &e)
}

// send sends requests to all that a client has mapped.
func (s *storm) send(p *party, i uint32) (sent uint32, err error) {
	ctx, cancel := p.n.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	long := make([]byte, 1500)
	for range stormRequests {
		for dest := 0; ; dest++ {
			if _, _, err := p.ep.Translation(dest); err != nil {
				break
			}
			if s.rng.IntN(4) == 0 {
				err = p.ep.RequestMedium(ctx, dest, hEcho, long[:1+s.rng.IntN(len(long)-1)], i, sent)
			} else {
				err = p.ep.Request(ctx, dest, hEcho, i, sent)
			}
			if err != nil {
				return sent, fmt.Errorf("client %d, request %d: %w", i, sent, err)
			}
			sent++
		}
	}
	return sent, nil
}

// judge: each request has ended once, or its reply came back to the server, and it was
// handled at most once; one that was answered was, and one that a card has refused was not.
func (s *storm) judge(i, sent uint32, e *ends) error {
	for n := range sent {
		ran, b := s.handled[[2]uint32{i, n}], s.back[[2]uint32{i, n}]
		a, r := e.answered[n], e.returned[n]
		why := e.why[n]
		if a+r > 1 || b > 1 || a+r+b == 0 || ran > 1 || a == 1 && ran == 0 || r == 1 && ran == 1 && why != endpoint.ReasonUnreachable && why != endpoint.ReasonBadEndpoint {
			return fmt.Errorf("request %d of client %d: answered %d times, came back %d times (%v), its reply %d times, handled %d times", n, i, a, r, why, b, ran)
		}
	}
	return nil
}

// run runs all.
func (s *storm) run(process func(i int) error) error {
	s.left = stormClients
	note := func(err error) {
		if err != nil {
			s.errs = append(s.errs, err)
		}
	}
	s.w.Go("server", func() { note(s.serve()) })
	for i := 1; i <= stormClients; i++ {
		s.w.Go(fmt.Sprint("client ", i), func() {
			note(process(i))
			s.left--
		})
	}
	err := s.w.Run()
	return errors.Join(append(s.errs, err)...)
}

// settled wants nothing to be left over on a card.
func (s *storm) settled() error {
	for range 400 { // what is under way when all have finished ends, by its tries at last
		s.w.Sleep(time.Millisecond)
	}
	for i, c := range s.cards {
		x := c.Snapshot()
		st, free := &x.Sends, x.Sends.Unbound+x.Sends.Yielded
		for _, n := range st.Ended {
			free += n
		}
		if st.Sent != free || x.Endpoints != 0 || x.Resident != 0 || x.Waiting != 0 || x.Pinned != 0 || x.Card.Posted != 16 || x.Card.Blocked {
			return fmt.Errorf("card %d: %d packets bound, %d free again; %+v", i, st.Sent, free, x)
		}
	}
	return nil
}

// TestStorm: while cables flap, a switch dies and returns, bits flip, a host fails and comes
// back with its address, and another one sends packets of its own making by routes of its own
// making, each by itself and all at once, of many clients' requests to 84 endpoints on 7 frames
// each is answered once or comes back once, and nothing is left over.
func TestStorm(t *testing.T) {
	for name, x := range map[string]weather{
		"calm":           {},
		"faults":         {faults: true},
		"bit errors":     {faults: true, bitErrors: 2e-6},
		"a host returns": {faults: true, returns: true},
		"hostile routes": {wild: true, timeout: time.Millisecond},
		"all at once":    {faults: true, returns: true, wild: true, bitErrors: 2e-6, timeout: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			strange := uint64(0)
			seeds.Each(t, 2, func(seed uint64) error {
				s := newStorm(t, seed, x)
				process := s.client
				if x.returns {
					process = s.returning
				}
				if err := s.run(process); err != nil {
					return err
				}
				if st := s.cards[0].Snapshot().Stats; name == "calm" && (st.Loads < stormEndpoints || st.Unloads < stormEndpoints-7 || st.Returned > 0) {
					return fmt.Errorf("the server's card: %+v", st)
				}
				for _, c := range s.cards {
					st := c.Snapshot()
					strange += min(st.Stats.Malformed, st.Stats.Misdelivered, st.Card.Stats.Misrouted+st.Card.Stats.TooLong)
				}
				return s.settled()
			})
			if x.wild && strange == 0 {
				t.Error("nothing of the wild host's was counted")
			}
		})
	}
}
