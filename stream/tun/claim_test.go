package tun

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
)

// board is a segment's directory in memory.
type board struct {
	mu    sync.Mutex
	names map[string][]ethertype.Addr
}

// seat is one host's access to a board. A lookup takes time, because it asks several times.
type seat struct {
	*board
	at ethertype.Addr
}

func (s seat) Advertise(name string, addr ethertype.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = append(s.names[name], addr)
	return nil
}

func (s seat) Withdraw(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = slices.DeleteFunc(s.names[name], func(a ethertype.Addr) bool { return a == s.at })
}

func (s seat) LookupAll(ctx context.Context, name string) (all []ethertype.Addr, err error) {
	for range 4 {
		s.mu.Lock()
		for _, a := range s.names[name] {
			if a != s.at && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		s.mu.Unlock()
		<-time.After(10 * time.Millisecond)
	}
	slices.SortFunc(all, ethertype.Addr.Compare)
	return all, ctx.Err()
}

// contest lets hosts claim one address, each after a pause, and returns the hosts that get it, as
// indexes in the order of their Bobnet addresses. made has the time that each host needs to create
// its interface.
func contest(t *testing.T, pauses, made []time.Duration) (winners []int) {
	t.Helper()
	b := &board{names: map[string][]ethertype.Addr{}}
	a := netip.MustParseAddr("10.9.0.9")
	errs := make([]error, len(pauses))
	var all sync.WaitGroup
	for i := range pauses {
		at := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, byte(i)}, Port: 7}
		c := &claims{dir: seat{b, at}, network: "n", at: at, log: slog.New(slog.DiscardHandler)}
		all.Go(func() {
			<-time.After(pauses[i])
			if errs[i] = c.get(t.Context(), []netip.Addr{a}); errs[i] != nil {
				c.end()
				return
			}
			<-time.After(made[i])
			c.sure()
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			winners = append(winners, i)
		case !errors.Is(err, errTaken):
			t.Errorf("host %d: %v", i, err)
		}
	}
	if left := b.names[claimOf(name("n", a))]; len(left) > 0 {
		t.Errorf("claims are left of %v", left)
	}
	if have := b.names[name("n", a)]; len(have) != len(winners) {
		t.Errorf("%v answer to the address, and %v have got it", have, winners)
	}
	return winners
}

// TestClaimedAtOnce: whatever the time between the claims of several hosts, exactly one gets the
// address. If they claim at the same time, it is the host with the lowest Bobnet address. If they
// claim one after the other, it is the first.
func TestClaimedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if got := contest(t, make([]time.Duration, 4), make([]time.Duration, 4)); !slices.Equal(got, []int{0}) {
			t.Errorf("all at once: %v get it, want the lowest", got)
		}
		if got := contest(t, []time.Duration{time.Second, time.Second, 0}, make([]time.Duration, 3)); !slices.Equal(got, []int{2}) {
			t.Errorf("one before the others: %v get it, want that one", got)
		}
		for seed := range uint64(500) {
			r := rand.New(rand.NewPCG(seed, 23))
			n := 2 + r.IntN(3)
			pauses, made := make([]time.Duration, n), make([]time.Duration, n)
			for i := range pauses {
				pauses[i] = time.Duration(r.IntN(150)) * time.Millisecond
				made[i] = time.Duration(r.IntN(100)) * time.Millisecond
			}
			if got := contest(t, pauses, made); len(got) != 1 {
				t.Fatalf("seed %d: %v get it; they begin after %v, and need %v", seed, got, pauses, made)
			}
		}
	})
}
