package vipl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNames lets nodes find each other by name at 30 % loss, each way.
func TestNames(t *testing.T) {
	seeds(t, manySeeds/5, func(seed uint64) error {
		const nodes = 4
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1})
		for i := range nodes {
			w.node(fmt.Sprint("node", i), &vipl.Config{Seed: seed<<8 + uint64(i)}, func(n *vipl.NIC) error {
				if err := n.Advertise(fmt.Sprint("rank ", i), ethertype.Addr{MAC: n.Addr().MAC, Port: service + uint16(i)}); err != nil {
					return err
				}
				for j := range nodes {
					at, err := n.Lookup(bg, fmt.Sprint("rank ", j))
					if err != nil || at.Port != service+uint16(j) || (at.MAC == n.Addr().MAC) != (i == j) {
						return fmt.Errorf("lookup of rank %d: %v, %w", j, at, err)
					}
				}
				driveFor(n, 10*time.Second)
				return nil
			})
		}
		return w.run()
	})
}

func TestNameErrors(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	w.node("a", nil, func(n *vipl.NIC) error {
		began := n.Now()
		if _, err := n.Lookup(bg, "nobody"); !errors.Is(err, vipl.ErrNameService) || !strings.Contains(err.Error(), "nobody") {
			return fmt.Errorf("unknown name: %v", err)
		}
		if took := time.Duration(n.Now() - began); took != vipl.DefaultConnectTimeout {
			return fmt.Errorf("gave up after %v, want %v", took, vipl.DefaultConnectTimeout)
		}
		addr := n.Addr()
		for name, want := range map[string]error{"": vipl.ErrArgument, strings.Repeat("x", vipl.MaxName+1): vipl.ErrArgument, "me": nil} {
			if err := n.Advertise(name, addr); !errors.Is(err, want) {
				return fmt.Errorf("advertise %q: %v, want %v", name, err, want)
			}
		}
		if err := n.Advertise("me", addr); !errors.Is(err, vipl.ErrNameService) {
			return fmt.Errorf("advertise twice: %v", err)
		}
		addr.MAC[5]++
		if err := n.Advertise("you", addr); !errors.Is(err, vipl.ErrArgument) {
			return fmt.Errorf("advertise for somebody else: %v", err)
		}
		n.Withdraw("me")
		n.Withdraw("me")
		return n.Advertise("me", n.Addr())
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestEcho measures round trips in a world whose delays are known.
func TestEcho(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1, Delay: 100 * time.Microsecond})
	other := w.node("b", nil, func(n *vipl.NIC) error { driveFor(n, 5*time.Second); return nil })
	w.node("a", nil, func(n *vipl.NIC) error {
		for _, size := range []int{0, 8, 1000, 1452} {
			for _, port := range []uint16{0, 1024} {
				rtt, err := n.Echo(bg, ethertype.Addr{MAC: other.MAC(), Port: port}, size)
				if err != nil || rtt != 200*time.Microsecond {
					return fmt.Errorf("echo of %d bytes: %v, %w", size, rtt, err)
				}
			}
		}
		if _, err := n.Echo(bg, ethertype.Addr{MAC: other.MAC()}, 1453); !errors.Is(err, vipl.ErrInvalidMTU) {
			return fmt.Errorf("oversize: %v", err)
		}
		if _, err := n.Echo(bg, ethertype.Addr{MAC: ethertype.MAC{2, 8}}, 8); !errors.Is(err, vipl.ErrTimeout) {
			return fmt.Errorf("nobody there: %v", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestEchoUnderLoss wants about as many answers as the loss lets through, each
// echo sent once.
func TestEchoUnderLoss(t *testing.T) {
	seeds(t, 10, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3})
		other := w.node("b", nil, func(n *vipl.NIC) error { driveFor(n, 200*time.Second); return nil })
		w.node("a", nil, func(n *vipl.NIC) error {
			answered := 0
			for range 200 {
				switch _, err := n.Echo(bg, ethertype.Addr{MAC: other.MAC()}, 64); {
				case err == nil:
					answered++
				case !errors.Is(err, vipl.ErrTimeout):
					return err
				}
			}
			if answered < 70 || answered > 126 { // 98 expected, four sigma
				return fmt.Errorf("%d of 200 echoes were answered at 30 %% loss each way", answered)
			}
			return nil
		})
		return w.run()
	})
}

// TestLateAnswer: an answer to a question that was asked again is none to the next
// question about that name, whose owner has withdrawn it in between.
func TestLateAnswer(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1, Delay: 8 * time.Millisecond}) // there and back takes longer than the first question waits
	w.node("owner", nil, func(n *vipl.NIC) error {
		if err := n.Advertise("me", n.Addr()); err != nil {
			return err
		}
		for n.Snapshot().TxFrames < 2 {
			driveFor(n, time.Millisecond)
		}
		n.Withdraw("me")
		driveFor(n, time.Second)
		return nil
	})
	w.node("seeker", nil, func(n *vipl.NIC) error {
		if _, err := n.Lookup(bg, "me"); err != nil {
			return err
		}
		dropped := n.Snapshot().Dropped
		ctx, cancel := n.WithTimeout(bg, 500*time.Millisecond)
		defer cancel()
		if at, err := n.Lookup(ctx, "me"); !errors.Is(err, vipl.ErrNameService) {
			return fmt.Errorf("a name that was withdrawn: %v, %w", at, err)
		}
		if now := n.Snapshot().Dropped; now[vipl.DropUnknown] == dropped[vipl.DropUnknown] {
			return errors.New("there was no late answer")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
