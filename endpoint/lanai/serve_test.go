package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// served has a card at one side of a cable that programs of other processes can use. stop ends it,
// as a kill does: at once.
func served(t *testing.T, veth *vethtest.Pair, side int, anyUser bool) (c *lanai.Card, stop func()) {
	t.Helper()
	c = openVeth(t, veth, side)
	var serve func(ctx context.Context) error
	if err := veth.In(side, func() (err error) {
		serve, err = lanai.Desk(c, anyUser)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx) }()
	stop = func() {
		cancel()
		if err, ok := <-done; ok {
			if close(done); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}
	t.Cleanup(stop)
	return c, stop
}

// TestConformsServed: programs that use cards of other processes keep the providers' contract, too.
func TestConformsServed(t *testing.T) {
	veth := vethtest.New(t, 1500)
	providertest.Run(t, func(t *testing.T, client, server *providertest.Host) providertest.Net {
		var nodes [2]provider.Provider
		for side, up := range []*providertest.Host{client, server} {
			served(t, veth, side, false)
			p, err := provider.OnCard(openVeth(t, veth, side), up, &up.Budget, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			nodes[side] = p
		}
		return providertest.Net{Dialer: nodes[0], To: nodes[1].Addr(), Nodes: nodes[:]}
	})
}

// talks has a client on one card talk to a server on another, or the same one.
func talks(t *testing.T, to, from *lanai.Card, rounds int) {
	t.Helper()
	server, err := newParty(to, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.n.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	served := make(chan error, 1)
	go func() {
		for {
			if _, err := server.b.WaitPoll(ctx); err != nil {
				served <- err
				return
			}
		}
	}()
	client, err := newParty(from, endpoint.Config{})
	if err == nil {
		if err = client.ep.Map(0, server.ep.Name(), tag); err == nil {
			err = client.talk(rounds)
		}
		client.n.Close()
	}
	if err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestServed: programs that have connections of their own to the process with the card talk to each
// other, to a program of that process, and to one at another card.
func TestServed(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	a, b, far := openVeth(t, veth, 0), openVeth(t, veth, 0), openVeth(t, veth, 1)
	for _, pair := range [][2]*lanai.Card{{a, far}, {far, b}, {a, b}, {card, a}, {b, card}, {a, a}} {
		talks(t, pair[0], pair[1], 5)
	}
	empty(t, card)
	if s := card.Snapshot().Stats; s.Malformed+s.Forged+s.BadEntries+s.Privileged+s.Unheard > 0 {
		t.Errorf("%+v", s)
	}
}

// empty waits until no program has anything of a card.
func empty(t *testing.T, card *lanai.Card) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		s := card.Snapshot()
		if s.Programs == 0 && s.Endpoints == 0 && s.Resident == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d programs, %d endpoints, %d in frames are left", s.Programs, s.Endpoints, s.Resident)
		}
	}
}

// openAs opens a card as another user.
func openAs(t *testing.T, veth *vethtest.Pair, side, uid int) (c *lanai.Card, err error) {
	t.Helper()
	err = veth.In(side, func() error {
		return vethtest.As(uid, func() (err error) {
			c, err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name})
			return err
		})
	})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// TestServedUsers: programs of other users are served only if the card says so, and then have their
// part of it and no more.
func TestServedUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "root, to be several users")
	}
	const alice, bob = 4321, 4322
	veth := vethtest.New(t, 1500)
	_, stop := served(t, veth, 0, false)
	if _, err := openAs(t, veth, 0, alice); err == nil || !strings.Contains(err.Error(), "--any-user") {
		t.Errorf("%v, want advice to use --any-user", err)
	}
	stop()
	card, _ := served(t, veth, 0, true)
	a, err := openAs(t, veth, 0, alice)
	if err != nil {
		t.Fatal(err)
	}
	b, err := openAs(t, veth, 0, bob)
	if err != nil {
		t.Fatal(err)
	}
	talks(t, a, b, 3)

	greedy, err := newParty(a, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := newParty(b, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("")
	for n := 1; n < 300 && !errors.Is(full, endpoint.ErrResource); n++ {
		ep, err := greedy.newEndpoint()
		if err != nil {
			t.Fatal(err)
		}
		if err = ep.Map(0, other.ep.Name(), tag); err != nil {
			t.Fatal(err)
		}
		full = ep.Request(t.Context(), 0, hEcho)
		if want := 256 / 4; full != nil && n != want {
			t.Fatalf("endpoint %d is refused, want %d: %v", n+1, want+1, full)
		}
	}
	if full == nil || !strings.Contains(full.Error(), "user 4321 has the maximum of 64 endpoints") {
		t.Errorf("%v", full)
	}
	talks(t, b, b, 3)
	greedy.n.Close()
	other.n.Close()
	empty(t, card)
	talks(t, a, b, 3)

	for n := 2; ; n++ {
		if _, err = openAs(t, veth, 0, alice); err != nil {
			if n != 17 || !errors.Is(err, endpoint.ErrResource) || !strings.Contains(err.Error(), "16 of one user") {
				t.Errorf("program %d is refused: %v", n, err)
			}
			break
		}
	}
	if _, err := openAs(t, veth, 0, bob); err != nil {
		t.Error(err)
	}
}

// TestServedFrames: more programs than the card has frames talk at the same time.
func TestServedFrames(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	var all sync.WaitGroup
	for range lanai.DefaultFrames {
		a, b := openVeth(t, veth, 0), openVeth(t, veth, 0)
		all.Go(func() { talks(t, a, b, 3) })
	}
	all.Wait()
	if s := card.Snapshot().Stats; s.Unloads == 0 {
		t.Errorf("%+v", s)
	}
}

// TestScribble: a program that writes anything into all it maps, and says anything, harms itself only.
func TestScribble(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, true)
	a, b, far := openVeth(t, veth, 0), openVeth(t, veth, 0), openVeth(t, veth, 1)
	done := make(chan struct{})
	var wild sync.WaitGroup
	for seed := range uint64(3) {
		wild.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 41))
			for {
				c := openVeth(t, veth, 0)
				p, err := newParty(c, endpoint.Config{})
				if err != nil {
					t.Error(err)
					return
				}
				for n := range 300 {
					select {
					case <-done:
						c.Close()
						return
					default:
					}
					if lanai.Scribble(c, rng); seed > 0 && n > 200 {
						lanai.Babble(c, rng)
					}
				}
				_ = p // the process ends without a word
				c.Close()
			}
		})
	}
	for range 3 {
		talks(t, a, b, 3)
		talks(t, far, a, 3)
	}
	close(done)
	wild.Wait()
	talks(t, b, far, 3)
	s := card.Snapshot().Stats
	if s.BadEntries == 0 || s.Privileged == 0 {
		t.Errorf("nothing was wild: %+v", s)
	}
	empty(t, card)
}

// TestManySayings: a process that says more to a silent station than it may have under way is served on, what
// is too much comes back, and the card ends when it is to.
func TestManySayings(t *testing.T) {
	const sayings, size = 4000, 3000
	veth := vethtest.New(t, 1500)
	_, stop := served(t, veth, 0, false)
	c := openVeth(t, veth, 0)
	p, err := newParty(c, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	port := p.ep.Name().Addr.Port
	lanai.Say(c, port, vethtest.MACs[1], lanai.MostSayings+1) // there is no card yet
	if _, err := newParty(c, endpoint.Config{}); err != nil {
		t.Fatalf("after %d sayings: %v", lanai.MostSayings+1, err)
	}
	const parts = 8 // a program waits for an answer, and the card's process reads all before
	for range parts {
		lanai.SayLong(c, port, vethtest.MACs[1], sayings/parts, size)
		if _, err := newParty(c, endpoint.Config{}); err != nil {
			t.Fatalf("after %d sayings: %v", sayings/parts, err)
		}
	}
	if n := lanai.Saying(c, port); n >= sayings || n <= lanai.MostSayings {
		t.Errorf("%d of %d sayings have not ended, want fewer, but more than %d", n, sayings, lanai.MostSayings)
	}
	stop()
}

// TestServedInterfaceGone: Serve returns when the interface is gone, whatever its programs have under way.
func TestServedInterfaceGone(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card := openVeth(t, veth, 0)
	var serve func(ctx context.Context) error
	if err := veth.In(0, func() (err error) {
		serve, err = lanai.Desk(card, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context()) }()
	c := openVeth(t, veth, 0)
	p, err := newParty(c, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lanai.Say(c, p.ep.Name().Addr.Port, vethtest.MACs[1], 2*lanai.MostSayings)
	if err := veth.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, transport.ErrGone) {
		t.Errorf("Serve returns %v, want ErrGone", err)
	}
}

// TestOrphans: what processes have said and did not wait for takes bounded memory.
func TestOrphans(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	for range lanai.MostOrphans/lanai.MostSayings + 8 {
		c := openVeth(t, veth, 0)
		p, err := newParty(c, endpoint.Config{})
		if err != nil {
			t.Fatal(err)
		}
		lanai.Say(c, p.ep.Name().Addr.Port, vethtest.MACs[1], lanai.MostSayings)
		c.Close()
	}
	empty(t, card)
	if n := card.Snapshot().Queued; n == 0 || n > lanai.MostOrphans {
		t.Errorf("%d sayings wait, want 1 to %d", n, lanai.MostOrphans)
	}
}

// TestServedNames: a program of another process can have so many names, and a name again.
func TestServedNames(t *testing.T) {
	veth := vethtest.New(t, 1500)
	served(t, veth, 0, false)
	c := openVeth(t, veth, 0)
	p, err := newParty(c, endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	port := p.ep.Name().Addr.Port
	for n := range lanai.MostNames {
		if err := lanai.Name(c, port, fmt.Sprint("name ", n)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"name 7":                              "",
		"one more":                            "256 names",
		"":                                    "a name of 0 bytes",
		string(make([]byte, lanai.MaxName+1)): "a name of 253 bytes",
	} {
		if err := lanai.Name(c, port, name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("name %.10q: %v, want %q", name, err, want)
		}
	}
}

// TestServedPosted: a message of a program of another process counts as posted until the card has done with it.
func TestServedPosted(t *testing.T) {
	veth := vethtest.New(t, 1500)
	card, _ := served(t, veth, 0, false)
	server, err := newParty(openVeth(t, veth, 0), endpoint.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := server.b.WaitPoll(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	client, err := newParty(openVeth(t, veth, 0), endpoint.Config{})
	if err == nil {
		err = client.ep.Map(0, server.ep.Name(), tag)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !client.answered(t) {
		t.Fatal("the request comes back")
	}
	for end := time.Now().Add(10 * time.Second); card.Snapshot().Posted != 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d messages are posted and all are answered", card.Snapshot().Posted)
		}
	}
	cancel()
	<-ended
}

// TestAsks: a process asks for so many names at a time, and names that nobody has keep it from no others.
func TestAsks(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	card, _ := s.pair(lanai.Config{})
	s.w.Go("program", func() {
		ask := lanai.Asker(card)
		const tooMany = 8
		for n := range lanai.MostAsks + tooMany {
			if looks, _ := ask(fmt.Sprint("name ", n)); looks != (n < lanai.MostAsks) {
				t.Errorf("question %d at a time: asked %v", n+1, looks)
			}
		}
		if n := card.Snapshot().Stats.Unasked; n != tooMany {
			t.Errorf("%d questions too many are counted, want %d", n, tooMany)
		}
		for n := range 2 * lanai.MostLooked {
			if err := s.w.Sleep(lanai.AskAgain); err != nil {
				t.Error(err)
				return
			}
			if looks, all := ask(fmt.Sprint("another ", n)); !looks || all > lanai.MostLooked {
				t.Errorf("question %d: asked %v, %d names are looked up", n, looks, all)
			}
		}
	})
	if err := s.w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestRung: the card can tell a ring for something new from one for nothing.
func TestRung(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	card, _ := s.pair(lanai.Config{})
	post, ring, err := lanai.ServedEnd(card)
	if err != nil {
		t.Fatal(err)
	}
	s.w.Go("program", func() {
		wants := func(when string, want bool) {
			t.Helper()
			if got := ring(); got != want {
				t.Errorf("%s: ring has a reason: %v, want %v", when, got, want)
			}
		}
		wants("nothing is posted", false)
		for _, where := range []string{"away", "in a frame"} {
			post(1)
			wants(where+", an entry is posted", true)
			if where == "away" {
				wants("it is on its way to a frame", false)
			}
			if err := s.w.Sleep(10 * time.Millisecond); err != nil {
				t.Error(err)
				return
			}
			wants("the card has seen the entry", false)
		}
	})
	if err := s.w.Run(); err != nil {
		t.Fatal(err)
	}
	if s := card.Snapshot().Stats; s.BadEntries != 2 || s.Loads != 1 {
		t.Errorf("%d entries that make no sense, %d loads, want 2 and 1", s.BadEntries, s.Loads)
	}
}

// TestSilentStations: sayings of a user to stations that do not answer keep back no others.
func TestSilentStations(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	a, b := s.pair(lanai.Config{})
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		for i := range 4 {
			lanai.SayAs(b, 7, mac(9+i), 64) // packets to it go to the other card, which drops them
		}
		ep, err := p.newEndpoint()
		if err == nil {
			err = ep.Map(0, p.targets[0], tag)
		}
		if err != nil {
			return err
		}
		began := s.w.Now()
		if err := ep.Request(t.Context(), 0, hEcho, 1); err != nil {
			return err
		}
		if err := p.until("an answer", func() bool { return len(p.got) > 0 }); err != nil {
			return err
		}
		if took := time.Duration(s.w.Now() - began); took > time.Second || b.Snapshot().Queued == 0 {
			return fmt.Errorf("a new connection takes %v, and %d sayings wait", took, b.Snapshot().Queued)
		}
		return nil
	})
}

// TestReplies: what a driver answers to a driver that takes no answers has a bound, and what is beyond it is counted.
// Others have theirs.
func TestReplies(t *testing.T) {
	const tooMany = 100
	s := newSegment(t, myrinet.Options{})
	_, b := s.pair(lanai.Config{})
	s.w.Go("driver", func() {
		for round := range 2 {
			lanai.Say(b, 0, mac(9), lanai.StationReplies+tooMany)
			lanai.Say(b, 0, mac(8), lanai.StationReplies)
			if n := b.Snapshot().Stats.Unsaid; n != uint64(round+1)*tooMany {
				t.Errorf("%d answers are dropped, want %d", n, (round+1)*tooMany)
			}
			if err := b.SetRoutes([]myrinet.HostRoute{}); err != nil { // all come back, some of them to be said again
				t.Error(err)
			}
			for b.Snapshot().Queued > 0 {
				if err := s.w.Sleep(time.Millisecond); err != nil {
					t.Error(err)
					return
				}
			}
			if err := b.SetRoutes([]myrinet.HostRoute{{To: ethertype.Broadcast}}); err != nil {
				t.Error(err)
			}
		}
	})
	if err := s.w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestSilentFrames: endpoints of a user that wait for a station that does not answer keep another user's from a
// frame for a second or so.
func TestSilentFrames(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	a, b := s.pair(lanai.Config{})
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		ctx := t.Context()
		eps := []*endpoint.Endpoint{p.ep}
		for len(eps) < lanai.DefaultFrames-1 {
			ep, err := p.newEndpoint()
			if err == nil {
				err = ep.Map(0, p.targets[0], tag)
			}
			if err != nil {
				return err
			}
			eps = append(eps, ep)
		}
		ask := func(what string) error {
			for _, ep := range eps {
				if err := ep.Request(ctx, 0, hEcho, 1); err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
			return nil
		}
		if err := ask("first"); err != nil {
			return err
		}
		if err := p.until("answers", func() bool { return len(p.got) == len(eps) }); err != nil {
			return err
		}
		if err := a.SetRoutes([]myrinet.HostRoute{}); err != nil { // it does not answer any more
			return err
		}
		if err := ask("then"); err != nil {
			return err
		}
		var others [2]*party
		for i := range others {
			var err error
			if others[i], err = newParty(b, endpoint.Config{}); err != nil {
				return err
			}
			defer others[i].n.Close()
			lanai.SetUser(b, others[i].ep.Name(), 7)
		}
		began := s.w.Now()
		err := others[0].ep.Map(0, others[1].ep.Name(), tag)
		if err == nil {
			err = others[0].ep.Request(ctx, 0, hEcho, 1)
		}
		for err == nil && len(others[0].got) == 0 && s.w.Now() < began+int64(time.Minute) {
			for _, p := range others {
				if _, err := p.b.Poll(); err != nil {
					return err
				}
			}
			err = s.w.Sleep(time.Millisecond)
		}
		if err != nil {
			return err
		}
		if took := time.Duration(s.w.Now() - began); took > 2*time.Second {
			return fmt.Errorf("another user's endpoints have frames after %v", took)
		}
		for served := 1; served > 0; {
			if served, err = p.b.Poll(); err != nil {
				return err
			}
		}
		if n := len(p.returned); n == 0 || n == len(eps) {
			return fmt.Errorf("%d of %d messages come back: want some; it took %v", n, len(eps), time.Duration(s.w.Now()-began))
		}
		return nil
	})
}

// TestUsersTakeTurns: a user with one endpoint gets a frame as often as a user with many.
func TestUsersTakeTurns(t *testing.T) {
	const n = 28
	cfg := lanai.Config{Channels: channels.Config{Timeout: 1_000_000, Channels: 32}, Card: myrinet.CardConfig{Timing: myrinet.SBusTiming(), SRAM: 1 << 20}}
	answered, _ := flooders(t, cfg, n, 400*time.Millisecond, func(c *lanai.Card, i int, ep *endpoint.Endpoint) {
		lanai.SetUser(c, ep.Name(), uint32(min(i, 1)))
	})
	others := 0
	for _, n := range answered[1:] {
		others += n
	}
	if mean := others / (n - 1); answered[0] < 2*mean {
		t.Errorf("the only endpoint of a user got %d answers, each of %d of another one %d: want twice as many at least", answered[0], n-1, mean)
	}
}

// TestOlderProgram: a program that shares something else with the card than this version does is told so.
func TestOlderProgram(t *testing.T) {
	veth := vethtest.New(t, 1500)
	served(t, veth, 0, false)
	if err := veth.In(0, func() error {
		at, err := iface.Find(vethtest.Name)
		if err != nil {
			return err
		}
		for other, want := range map[int]string{-1: "restart this program", 0: "", 1: "restart the card"} {
			refused, err := lanai.Hello(t.Context(), at, other)
			if err != nil || (refused == "") != (want == "") || !strings.Contains(refused, want) {
				t.Errorf("version %+d: %q, %v, want %q", other, refused, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
