package seal_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/transport/sim"
)

var theKey = seal.Key{1, 2, 3, 31: 4}

// seeded returns a source of randomness that is the same each time.
func seeded(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

// wrap seals a link under theKey, or as opts say.
func wrap(t testing.TB, link transport.Link, opts seal.Options) transport.Link {
	t.Helper()
	if opts.Keys == nil {
		opts.Keys = seal.Fixed(theKey)
	}
	l, err := seal.New(link, opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLinkSim runs the suite of links in virtual time, for either cipher.
func TestLinkSim(t *testing.T) {
	for name, opts := range map[string]seal.Options{"AES": {}, "ChaCha": seal.Options{}.ChaCha()} {
		for world, simOpts := range map[string]sim.Options{
			"default": {},
			"slow":    {Bandwidth: 1e8, Jitter: 100 * time.Microsecond, TxSlots: 20, RxSlots: 64},
			"jumbo":   {Bandwidth: 1e11, MTU: 9000},
		} {
			t.Run(name+"/"+world, func(t *testing.T) {
				linktest.Run(t, func(t *testing.T) linktest.Pair {
					w := sim.New(simOpts)
					a, b := opts.OneWay(), opts.OneWay()
					a.Random, b.Random = seeded(1), seeded(2)
					p := linktest.Pair{A: wrap(t, w.Station("a"), a), B: wrap(t, w.Station("b"), b)}
					if !seal.Meet(p.A, p.B) {
						t.Fatal("no session")
					}
					return p
				})
			})
		}
	}
}

// TestLinkRing runs it on a veth pair, with long frames.
func TestLinkRing(t *testing.T) {
	p := vethtest.New(t, 1500)
	open := func(t *testing.T, side int) (l transport.Link) {
		err := p.In(side, func() error {
			inner, err := ring.Open(t.Context(), &ring.Config{Interface: vethtest.Name, Slots: 64})
			if err == nil {
				l = wrap(t, inner, seal.Options{}.OneWay())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	linktest.Run(t, func(t *testing.T) linktest.Pair {
		pair := linktest.Pair{A: open(t, 0), B: open(t, 1), C: open(t, 1)}
		if !seal.Meet(pair.A, pair.B, pair.C) {
			t.Fatal("no session")
		}
		return pair
	})
}
