package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
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

// TestAnnounced: a name that is announced ends the wait for it without a query. One that is not, or was announced before the
// wait, is queried after a while. Nobody counts the announcement as a stray frame.
func TestAnnounced(t *testing.T) {
	const quiet, soon = 100 * time.Millisecond, 10 * time.Millisecond
	w := newWorld(sim.Options{Seed: 1})
	at := ethertype.Addr{}
	w.node("owner", nil, func(n *vipl.NIC) error {
		at = ethertype.Addr{MAC: n.Addr().MAC, Port: service}
		if err := errors.Join(n.Advertise("a", at), n.Advertise("b", at)); err != nil {
			return err
		}
		seam.AnnounceName(n, "b")
		seam.AnnounceName(n, "nobody's")
		driveFor(n, soon)
		seam.AnnounceName(n, "a")
		driveFor(n, time.Second)
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		driveFor(n, soon/2)
		began := n.Now()
		for _, tc := range []struct {
			name        string
			least, most time.Duration
		}{{"a", 0, soon}, {"b", soon + quiet/2, soon + 2*quiet}} {
			got, err := seam.AwaitName(bg, n, tc.name, quiet)
			if took := time.Duration(n.Now() - began); err != nil || got != at || took < tc.least || took > tc.most {
				return fmt.Errorf("%q is at %v after %v: %w", tc.name, got, took, err)
			}
		}
		ctx, cancel := n.WithTimeout(bg, time.Second)
		defer cancel()
		if got, err := seam.AwaitName(ctx, n, "nobody's", quiet); !errors.Is(err, vipl.ErrNameService) {
			return fmt.Errorf("a name of nobody is at %v: %w", got, err)
		}
		if s := n.Snapshot(); s.Dropped[drops.Unknown] != 0 {
			return fmt.Errorf("%d frames were strays", s.Dropped[drops.Unknown])
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestAnnouncedSealed: a NIC with a key announces nothing, because a stranger could replay that to a later run. A name is found
// by a query.
func TestAnnouncedSealed(t *testing.T) {
	const quiet = 100 * time.Millisecond
	w := newWorld(sim.Options{Seed: 1})
	w.key = seal.Fixed(sealKey(1))
	w.node("owner", nil, func(n *vipl.NIC) error {
		if err := n.Advertise("a", ethertype.Addr{MAC: n.Addr().MAC, Port: service}); err != nil {
			return err
		}
		driveFor(n, quiet/10)
		seam.AnnounceName(n, "a")
		driveFor(n, time.Second)
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		began := n.Now()
		_, err := seam.AwaitName(bg, n, "a", quiet)
		if took := time.Duration(n.Now() - began); err != nil || took < quiet/2 {
			return fmt.Errorf("the name was found after %v: %w", took, err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
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
		if err := n.Advertise("me", addr); !errors.Is(err, vipl.ErrNameService) || err.Error() != `vipl: advertise: name is taken: "me" is already advertised on this NIC` {
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
		if now := n.Snapshot().Dropped; now[drops.Unknown] == dropped[drops.Unknown] {
			return errors.New("there was no late answer")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestLookupAll: everybody who answers to a name is found, also by a NIC that
// advertises it itself, in the presence of loss, and nobody else is.
func TestLookupAll(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	var nics []*vipl.NIC
	var addrs []ethertype.Addr
	for range 4 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("nic"), Seed: uint64(len(nics) + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer nic.Close()
		l, err := nic.Listen(0)
		if err != nil {
			t.Fatal(err)
		}
		nics, addrs = append(nics, nic), append(addrs, l.Addr())
	}
	for i, name := range []string{"service", "service", "another", "service"} {
		if err := nics[i].Advertise(name, addrs[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, nic := range nics[1:] {
		w.Go("answerer", func() {
			for end := w.Now() + int64(2*time.Second); w.Now() < end; nic.Poll() {
				if err := w.Sleep(time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.Go("asker", func() {
		for _, x := range []struct {
			name string
			want []ethertype.Addr
		}{{"service", []ethertype.Addr{addrs[1], addrs[3]}}, {"another", addrs[2:3]}, {"none", nil}} {
			ctx, cancel := nics[0].WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if got, err := nics[0].LookupAll(ctx, x.name); err != nil || !slices.Equal(got, x.want) {
				t.Errorf("%s: %v, %v, want %v", x.name, got, err, x.want)
			}
		}
		if _, err := nics[0].LookupAll(t.Context(), ""); !errors.Is(err, vipl.ErrArgument) {
			t.Errorf("the empty name: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestLookupAt: only the NIC that is asked answers, another one that has the name is not heard,
// and one that has not answers nothing.
func TestLookupAt(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	w.Script(func(_ int64, _, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		if _, err := h.Parse(frame); err == nil && h.Dst == ethertype.Broadcast {
			t.Errorf("a frame to all: %+v", h)
		}
		return sim.Action{}
	})
	var nics []*vipl.NIC
	for i := range 3 {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("nic"), Seed: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer nic.Close()
		nics = append(nics, nic)
	}
	for _, nic := range nics[1:] {
		if err := nic.Advertise("service", nic.Addr()); err != nil {
			t.Fatal(err)
		}
		w.Go("answerer", func() {
			for end := w.Now() + int64(2*time.Second); w.Now() < end; nic.Poll() {
				if err := w.Sleep(time.Millisecond); err != nil {
					t.Error(err)
				}
			}
		})
	}
	w.Go("asker", func() {
		for _, nic := range nics[1:] {
			if got, err := nics[0].LookupAt(t.Context(), nic.Addr(), "service"); err != nil || got != nic.Addr() {
				t.Errorf("%v, %v, want %v", got, err, nic.Addr())
			}
		}
		ctx, cancel := nics[0].WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := nics[0].LookupAt(ctx, nics[1].Addr(), "another")
		if !errors.Is(err, vipl.ErrNameService) || !strings.Contains(err.Error(), "the NIC at "+nics[1].Addr().String()) {
			t.Errorf("a name that it has not: %v", err)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}

// TestLookupCancelled: a question that its caller gives up says so, and does not
// blame the owner of the name.
func TestLookupCancelled(t *testing.T) {
	d := newDuo(t, nil, nil)
	reason := errors.New("somebody pressed a key")
	ctx, cancel := context.WithCancelCause(bg)
	cancel(reason)
	_, err := d.na.Lookup(ctx, "nobody")
	want := `vipl: look up: name not found on the segment: context canceled: the query for "nobody" was cancelled: somebody pressed a key`
	if !errors.Is(err, context.Canceled) || !errors.Is(err, vipl.ErrNameService) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestLookupDead: on a link that somebody has closed under the NIC, before a
// lookup or in the midst of one, it fails at once and for that cause. It used to
// ask again without a pause, the NIC locked, until its time was up.
func TestLookupDead(t *testing.T) {
	for name, midst := range map[string]bool{"Before": false, "Midst": true} {
		t.Run(name, func(t *testing.T) {
			l, _ := memPair(1500)
			n, err := vipl.Open(t.Context(), &vipl.Config{Link: l, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			questions := 0
			l.onSend = func(f []byte) {
				var h ethertype.Header
				if _, err := h.Parse(f); err == nil && h.Kind == ethertype.KindQuery {
					questions++
				}
				l.dead = l.dead || questions == 2
			}
			l.dead = !midst
			ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
			defer cancel()
			_, err = n.Lookup(ctx, "nobody")
			if !errors.Is(err, vipl.ErrLink) || !errors.Is(err, transport.ErrClosed) {
				t.Errorf("%v, want ErrLink and what the link says", err)
			}
			if questions > 2 {
				t.Errorf("asked %d times", questions)
			}
		})
	}
}

// TestOneAnswer: of several NICs on one interface one answers an echo and an inquiry to any NIC there,
// and when that one has gone another one does.
func TestOneAnswer(t *testing.T) {
	p := vethtest.New(t, 1500)
	open := func(side int) (n *vipl.NIC) {
		err := p.In(side, func() (err error) {
			n, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Driver: "packet"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		return n
	}
	var many []*vipl.NIC
	for range 6 {
		many = append(many, open(0))
	}
	asker := open(1)
	all := ethertype.Addr{MAC: many[0].Addr().MAC}
	for range 2 {
		for tries := 0; ; tries++ { // the one that has spoken may have closed a moment ago
			if _, err := asker.Echo(bg, all, 8); err == nil {
				break
			} else if tries == 10 {
				t.Fatal(err)
			}
		}
		before := make([]uint64, len(many))
		for i, n := range many {
			before[i] = n.Snapshot().TxFrames
		}
		if _, err := asker.Echo(bg, all, 8); err != nil {
			t.Fatal(err)
		}
		if _, err := asker.HostByAddr(bg, all); err != nil {
			t.Fatal(err)
		}
		for _, n := range many { // it has received the other questions before this one
			if _, err := asker.Echo(bg, n.Addr(), 8); err != nil {
				t.Fatal(err)
			}
		}
		speaker := -1
		for i, n := range many {
			switch n.Snapshot().TxFrames - before[i] {
			case 1:
			case 3:
				if speaker >= 0 {
					t.Fatal("two NICs have answered")
				}
				speaker = i
			default:
				t.Fatalf("NIC %d has answered one question in two", i)
			}
		}
		if speaker < 0 {
			t.Fatal("no NIC has answered")
		}
		if err := many[speaker].Close(); err != nil {
			t.Fatal(err)
		}
		many = append(many[:speaker], many[speaker+1:]...)
	}
}
