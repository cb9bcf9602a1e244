package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// restart is a peer that is killed in the middle of a message.
type restart struct {
	*world
	seed   uint64
	attr   *vipl.Attributes
	reborn bool  // another process starts at the victim's address
	killed int64 // when
}

// restartSize is the length of each message, restartCount how many of them the
// second connection carries, and endless more than can be sent before the kill.
const (
	restartSize  = 100_000
	restartCount = 3
	endless      = 1 << 20
)

// TestRestart kills a peer in the middle of a message that it receives or sends;
// another process starts on the same host, or none. The survivor learns in
// bounded time, and a new connection works.
func TestRestart(t *testing.T) {
	for _, role := range []string{"receiver", "sender"} {
		for _, reborn := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/reborn=%v", role, reborn), func(t *testing.T) {
				seeds(t, manySeeds, func(seed uint64) error {
					r := &restart{world: newWorld(sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.02}), seed: seed, reborn: reborn,
						attr: &vipl.Attributes{Reliability: reliableLevels[seed%2]}}
					if role == "sender" {
						return r.ofSender()
					}
					return r.ofReceiver()
				})
			})
		}
	}
}

// victim runs life at a station that is killed in the midst of it, and another
// one there afterwards. life gets how many messages there are.
func (r *restart) victim(life func(count int) func(n *vipl.NIC) error) ethertype.MAC {
	station := r.Station("victim")
	mac := station.MAC()
	r.nodeOn(station, "victim", nil, func(n *vipl.NIC) error {
		if err := life(endless)(n); r.killed == 0 || err == nil {
			return fmt.Errorf("the victim ended before it was killed: %w", err)
		}
		return nil
	})
	r.At(connected+int64(5+r.seed%40)*100_000, func() {
		r.killed = r.Now()
		r.Kill(station)
		if r.reborn {
			again := r.StationWith(sim.StationOptions{Name: "reborn", MAC: mac})
			r.nodeOn(again, "reborn", &vipl.Config{Seed: r.seed + 1<<40}, life(restartCount))
		}
	})
	return mac
}

// learnt wants the survivor's connection to have ended in time with err, for
// the right reason. Who sends learns of a new process from its first answer,
// who only receives at the next keepalive.
func (r *restart) learnt(v *vipl.VI, err error, limit time.Duration) error {
	want := vipl.ErrUnreachable
	if r.reborn {
		want = vipl.ErrPeerReset
	} else {
		limit = 12 * time.Second
	}
	took := time.Duration(r.Now() - r.killed)
	if err == nil || r.killed == 0 || !errors.Is(v.Err(), want) || took > limit {
		return fmt.Errorf("%v after the kill at %v: %w (%v)", took, time.Duration(r.killed), v.Err(), err)
	}
	return nil
}

func (r *restart) ofReceiver() error {
	mac := r.victim(func(count int) func(n *vipl.NIC) error {
		return func(n *vipl.NIC) error {
			l, err := n.Listen(service)
			if err != nil {
				return err
			}
			v, in, err := r.accept(n, l, count)
			if err == nil {
				err = in.receive(v)
			}
			driveFor(n, time.Second)
			return err
		}
	})
	r.node("survivor", nil, func(n *vipl.NIC) error {
		to := ethertype.Addr{MAC: mac, Port: service}
		v, err := n.CreateVI(r.attr, nil, nil)
		if err == nil {
			err = dial(v, to)
		}
		if err != nil {
			return err
		}
		driveFor(n, time.Duration(connected-r.Now()))
		err = sendAll(v, endless, restartSize, r.seed)
		if err := r.learnt(v, err, 3*time.Second); err != nil || !r.reborn {
			return err
		}
		if err := v.Disconnect(); err != nil {
			return err
		}
		if err := dial(v, to); err != nil {
			return fmt.Errorf("second connection: %w", err)
		}
		for {
			if _, err := v.SendDone(); err == vipl.ErrQueueEmpty {
				break
			}
		}
		return sendAll(v, restartCount, restartSize, r.seed)
	})
	return r.run()
}

func (r *restart) ofSender() error {
	survivor := r.node("survivor", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		v, in, err := r.accept(n, l, endless)
		if err != nil {
			return err
		}
		err = in.receive(v)
		if err := r.learnt(v, err, 12*time.Second); err != nil || !r.reborn {
			return err
		}
		if v, in, err = r.accept(n, l, restartCount); err == nil {
			err = in.receive(v)
		}
		driveFor(n, time.Second)
		return err
	})
	r.victim(func(count int) func(n *vipl.NIC) error {
		return func(n *vipl.NIC) error {
			v, err := n.CreateVI(r.attr, nil, nil)
			if err == nil {
				err = dial(v, ethertype.Addr{MAC: survivor.MAC(), Port: service})
			}
			if err != nil {
				return err
			}
			if count == endless {
				driveFor(n, time.Duration(connected-r.Now()))
			}
			return sendAll(v, count, restartSize, r.seed)
		}
	})
	return r.run()
}

// accept takes a connection for count messages.
func (r *restart) accept(n *vipl.NIC, l *vipl.Listener, count int) (*vipl.VI, *inbox, error) {
	req, err := l.Wait(bg)
	if err != nil {
		return nil, nil, err
	}
	v, err := n.CreateVI(r.attr, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	in := &inbox{count: count, size: restartSize, seed: r.seed, depth: 2 * outboxDepth}
	if err := in.post(v); err != nil {
		return nil, nil, err
	}
	return v, in, req.Accept(bg, v)
}

// TestGenerations registers memory in one slot of the table more often than a
// handle can count: no two of the handles in a row are the same, the one before
// names nothing any more, and the registering goes on.
func TestGenerations(t *testing.T) {
	link, _ := memPair(1500)
	n, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	buf, before := make([]byte, 64), vipl.MemHandle(0)
	for i := range 5000 {
		h, err := n.RegisterMem(buf, nil)
		if err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		if _, err := n.QueryMem(h); err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		if _, err := n.QueryMem(before); err == nil {
			t.Fatalf("registration %d: the handle %v before it still names a region, as %v does", i, before, h)
		}
		if err := n.DeregisterMem(h); err != nil {
			t.Fatalf("registration %d: %v", i, err)
		}
		before = h
	}
}

// TestSuccessorOnOneHost: a station ends and another one opens with its ports.
// Who knew the old one connects with the new one at once: the news that the old
// one has gone, which comes late, does not concern that connection.
func TestSuccessorOnOneHost(t *testing.T) {
	open := func(ports transport.PortRange) *vipl.NIC {
		n, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(71), Driver: "udp", Ports: ports})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	a := open(transport.PortRange{Lo: 20480, Hi: 21503})
	defer a.Close()
	for i := range 60 {
		x := open(transport.PortRange{Lo: 30720, Hi: 31743})
		l, err := x.Listen(30721)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			v, err := x.CreateVI(nil, nil, nil)
			if err == nil {
				var r *vipl.Request
				if r, err = l.Wait(ctx); err == nil {
					err = r.Accept(ctx, v)
				}
			}
			accepted <- err
		}()
		v, err := a.CreateVI(nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Connect(ctx, l.Addr(), nil); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := <-accepted; err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		x.Close()
		v.Close()
	}
}

// TestPortsTakenOnOneHost: a NIC whose ports somebody else has within the host
// waits a moment for him to leave, and then says so.
func TestPortsTakenOnOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	ports := transport.PortRange{Lo: 20480, Hi: 21503}
	squat := func() (other *shm.Link) {
		if err := p.In(0, func() error {
			ifi, err := net.InterfaceByName(vethtest.Name)
			if err == nil {
				other, err = shm.Open(&shm.Config{Address: ethertype.MAC(ifi.HardwareAddr), Segment: strconv.Itoa(ifi.Index), EtherType: ethertype.Default, Ports: ports})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return other
	}
	open := func() (n *vipl.NIC, err error) {
		err = p.In(0, func() error {
			n, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name, Ports: ports})
			return err
		})
		return n, err
	}
	other := squat()
	_, err := open()
	if !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "20480..21503") || !strings.Contains(err.Error(), "Config.WireOnly") {
		t.Errorf("Open with ports that another station has: %v", err)
	}
	other.Close()
	other = squat() // the failure has left nothing behind
	time.AfterFunc(100*time.Millisecond, func() { other.Close() })
	n, err := open()
	if err != nil {
		t.Fatalf("Open while a station leaves: %v", err)
	}
	n.Close()
}
