package lanai_test

import (
	"context"
	"errors"
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
