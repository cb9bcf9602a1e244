package vipl_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// peers runs two nodes; each gets the address of the other's NIC.
func peers(opts sim.Options, side func(i int, n *vipl.NIC, other ethertype.Addr) error) (*world, error) {
	w := newWorld(opts)
	stations := [2]*sim.Station{w.Station("left"), w.Station("right")}
	for i, s := range stations {
		other := ethertype.Addr{MAC: stations[1-i].MAC(), Port: stations[1-i].Info().Ports.Lo}
		w.nodeOn(s, s.String(), nil, func(n *vipl.NIC) error { return side(i, n, other) })
	}
	return w, w.run()
}

// greet sends a message each way over a connected VI and waits for both.
func greet(v *vipl.VI, in *buffers) error {
	out, err := newBuffers(v.NIC(), 1, 8)
	if err == nil {
		err = v.PostSend(&out.descs[0])
	}
	if err == nil {
		_, err = v.SendWait(bg)
	}
	if err == nil {
		_, err = v.RecvWait(bg)
	}
	return errors.Join(err, v.Err())
}

// TestPeer connects at 30 % loss each way, the two sides up to two seconds
// apart, and sends both ways.
func TestPeer(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		_, err := peers(sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1, Reorder: 0.2, ReorderBy: 4, Hold: 20 * time.Millisecond},
			func(i int, n *vipl.NIC, other ethertype.Addr) error {
				if uint64(i) == seed%2 { // late, or not
					driveFor(n, time.Duration(seed/2%8)*280*time.Millisecond)
				}
				v, err := n.CreateVI(&vipl.Attributes{Reliability: reliableLevels[seed%2]}, nil, nil)
				if err != nil {
					return err
				}
				in, err := newBuffers(n, 1, 8)
				if err == nil {
					err = v.PostRecv(&in.descs[0])
				}
				if err == nil {
					err = v.ConnectPeer(bg, other, []byte("spin"))
				}
				if err == nil {
					err = greet(v, in)
				}
				driveFor(n, 2*time.Second)
				return err
			})
		return err
	})
}

// TestPeerMany connects several VIs of two NICs at the same time: the
// discriminator tells which belong together.
func TestPeerMany(t *testing.T) {
	const count = 20
	seeds(t, manySeeds/10, func(seed uint64) error {
		var locals, remotes [2][count]ethertype.Addr
		_, err := peers(sim.Options{Seed: seed, Loss: 0.1}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
			var vis [count]*vipl.VI
			for k := range count {
				k := (k*7 + i*3) % count // each side in an order of its own
				v, err := n.CreateVI(nil, nil, nil)
				if err == nil {
					err = v.ConnectPeerStart(other, fmt.Append(nil, k))
				}
				if err != nil {
					return err
				}
				vis[k] = v
			}
			for k, v := range vis {
				if err := v.ConnectPeerWait(bg); err != nil {
					return fmt.Errorf("VI %d: %w", k, err)
				}
				locals[i][k], remotes[i][k] = v.Local(), v.Remote()
			}
			driveFor(n, time.Second)
			return nil
		})
		if locals[0] != remotes[1] || locals[1] != remotes[0] {
			err = errors.Join(err, fmt.Errorf("locals %v and %v, remotes %v and %v", locals[0], locals[1], remotes[0], remotes[1]))
		}
		return err
	})
}

// TestPeerMismatch: both sides learn that their attributes differ, and what each
// has, also when frames are lost, and can connect with others afterwards.
func TestPeerMismatch(t *testing.T) {
	for _, c := range []struct {
		attr   vipl.Attributes
		want   error
		name   string
		values [2]any // of default attributes and of attr
	}{
		{vipl.Attributes{Reliability: reliability.ReliableReception}, vipl.ErrInvalidReliability, "Reliability", [2]any{"delivery", "reception"}},
		{vipl.Attributes{MaxTransferSize: 1000}, vipl.ErrInvalidMTU, "MaxTransferSize", [2]any{vipl.MaxTransferSize, 1000}},
		{vipl.Attributes{QoS: 7}, vipl.ErrInvalidQoS, "QoS", [2]any{0, 7}},
	} {
		seeds(t, 30, func(seed uint64) error {
			_, err := peers(sim.Options{Seed: seed, Loss: 0.3}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
				attrs := [2]vipl.Attributes{{}, c.attr}
				which := (uint64(i) + seed) % 2
				v, err := n.CreateVI(&attrs[which], nil, nil)
				if err == nil {
					err = v.ConnectPeer(bg, other, nil)
					err = namesBoth(err, c.want, v.Local(), other, c.name, c.values[which], c.values[1-which])
				}
				if err == nil && v.State() != vipl.StateIdle {
					err = fmt.Errorf("%v after %v", v.State(), c.want)
				}
				if err != nil {
					return err
				}
				if v, err = n.CreateVI(nil, nil, nil); err == nil {
					err = v.ConnectPeer(bg, other, []byte("once more"))
				}
				driveFor(n, 2*time.Second)
				return err
			})
			return err
		})
	}
}

// TestPeerAlone: nobody asks in time, or with another discriminator, or for
// another NIC.
func TestPeerAlone(t *testing.T) {
	for name, differ := range map[string]func(i int, other *ethertype.Addr) string{
		"Discriminator": func(i int, other *ethertype.Addr) string { return fmt.Sprint("side ", i) },
		"Address":       func(i int, other *ethertype.Addr) string { other.Port += uint16(i); return "same" },
		"Silence":       func(i int, other *ethertype.Addr) string { other.MAC[5] += 9; return "same" },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := peers(sim.Options{Seed: 1}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
				discriminator := differ(i, &other)
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				began := n.Now()
				err = v.ConnectPeer(bg, other, []byte(discriminator))
				took := time.Duration(n.Now() - began)
				if !errors.Is(err, vipl.ErrTimeout) || !strings.Contains(err.Error(), "discriminator") || v.State() != vipl.StateIdle {
					return fmt.Errorf("%v, %v", err, v.State())
				}
				if took < vipl.DefaultConnectTimeout || took > vipl.DefaultConnectTimeout+time.Second {
					return fmt.Errorf("gave up after %v", took)
				}
				driveFor(n, time.Second)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPeerDies kills one side at some moment of the attempt; another process
// starts in its place and asks again. The survivor connects to that one, or
// learns in time and does so at its next attempt.
func TestPeerDies(t *testing.T) {
	seeds(t, manySeeds/5, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.1, Delay: time.Millisecond})
		victim, survivor := w.Station("victim"), w.Station("survivor")
		if seed%2 == 0 { // so that each is the one with the higher address
			victim, survivor = survivor, victim
		}
		addr := func(s *sim.Station) ethertype.Addr {
			return ethertype.Addr{MAC: s.MAC(), Port: s.Info().Ports.Lo}
		}
		there := addr(victim)
		connect := func(n *vipl.NIC, to ethertype.Addr) (v *vipl.VI, err error) {
			for range 10 {
				if v, err = n.CreateVI(&vipl.Attributes{PeerTimeout: 2 * time.Second}, nil, nil); err != nil {
					return nil, err
				}
				if err = v.ConnectPeer(bg, to, []byte("x")); err == nil {
					return v, nil
				}
				if !typed(err) {
					return nil, err
				}
				v.Close()
			}
			return nil, err
		}
		w.nodeOn(victim, "victim", nil, func(n *vipl.NIC) error {
			connect(n, addr(survivor))
			driveFor(n, time.Minute)
			return nil
		})
		w.At(sim.Start+int64(seed%60)*100_000, func() {
			w.Kill(victim)
			reborn := w.StationWith(sim.StationOptions{Name: "reborn", MAC: there.MAC})
			w.nodeOn(reborn, "reborn", &vipl.Config{Seed: seed + 1<<40}, func(n *vipl.NIC) error {
				_, err := connect(n, addr(survivor))
				driveFor(n, 30*time.Second)
				return err
			})
		})
		w.nodeOn(survivor, "survivor", nil, func(n *vipl.NIC) error {
			for {
				v, err := connect(n, there)
				if err != nil {
					return err
				}
				driveFor(n, 5*time.Second)
				if v.State() == vipl.StateConnected {
					return nil
				}
				v.Close() // it was the victim
			}
		})
		return w.run()
	})
}

// TestPeerErrors goes through what is refused at once.
func TestPeerErrors(t *testing.T) {
	_, err := peers(sim.Options{Seed: 1}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
		if i == 1 {
			return nil
		}
		v, _ := n.CreateVI(nil, nil, nil)
		u, _ := n.CreateVI(nil, nil, nil)
		if err := v.ConnectPeerDone(); !errors.Is(err, vipl.ErrInvalidState) {
			return fmt.Errorf("done before it began: %v", err)
		}
		for name, c := range map[string]struct {
			to   ethertype.Addr
			disc int
			want error
		}{
			"group":  {ethertype.Addr{MAC: ethertype.Broadcast, Port: 1}, 0, vipl.ErrArgument},
			"zero":   {ethertype.Addr{}, 0, vipl.ErrArgument},
			"itself": {n.Addr(), 0, vipl.ErrArgument},
			"long":   {other, vipl.MaxDiscriminator + 1, vipl.ErrArgument},
		} {
			if err := v.ConnectPeerStart(c.to, make([]byte, c.disc)); !errors.Is(err, c.want) {
				return fmt.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if err := v.ConnectPeerStart(other, make([]byte, vipl.MaxDiscriminator)); err != nil {
			return err
		}
		if err := v.ConnectPeerDone(); err != vipl.ErrNotDone || v.State() != vipl.StateConnectPending {
			return fmt.Errorf("pending: %v, %v", err, v.State())
		}
		if err := v.ConnectPeerStart(other, nil); !errors.Is(err, vipl.ErrInvalidState) {
			return fmt.Errorf("twice: %v", err)
		}
		if err := u.ConnectPeerStart(other, make([]byte, vipl.MaxDiscriminator)); !errors.Is(err, vipl.ErrInvalidState) {
			return fmt.Errorf("the same for another VI: %v", err)
		}
		if err := v.Disconnect(); err != nil {
			return err
		}
		return u.ConnectPeerStart(other, make([]byte, vipl.MaxDiscriminator))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPeerVeth connects on a real link, both sides blocking.
func TestPeerVeth(t *testing.T) {
	nics := vethNICs(t, 1500, vipl.Config{}, nil)
	connect := func(i int) func() error {
		return func() error {
			v, err := nics[i].CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			in, _ := newBuffers(nics[i], 1, 8)
			if err := v.PostRecv(&in.descs[0]); err != nil {
				return err
			}
			if err := v.ConnectPeer(bg, nics[1-i].Addr(), []byte("veth")); err != nil {
				return err
			}
			return greet(v, in)
		}
	}
	within(t, "the peers", func() error { return all(connect(0), connect(1)) })
}
