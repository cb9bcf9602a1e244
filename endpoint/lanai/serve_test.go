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
	if full == nil || !strings.Contains(full.Error(), "user 4321 has 64 endpoints") {
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
	const sayings = 10_000
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
	lanai.Say(c, port, vethtest.MACs[1], sayings)
	if _, err := newParty(c, endpoint.Config{}); err != nil {
		t.Fatalf("after %d sayings: %v", sayings, err)
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

// TestSilentStation: sayings to a station that does not answer keep back no others.
func TestSilentStation(t *testing.T) {
	s := newSegment(t, myrinet.Options{})
	silent := mac(9) // packets to it go to the other card, which drops them
	a, b := s.pair(lanai.Config{})
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		lanai.Say(b, 0, silent, 64)
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
