package vipl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// packets is a station without a NIC, which sends what it likes.
type packets struct {
	*sim.Station
	views [][]byte
	token uint64 // the last that has come
	took  int    // bytes of the frames that have come
	kinds map[ethertype.Kind]int
}

func newPackets(w *world, name string) *packets {
	return packetsOn(w.StationWith(sim.StationOptions{Name: name}))
}

func packetsOn(s *sim.Station) *packets {
	return &packets{Station: s, views: make([][]byte, transport.MaxBatch), kinds: map[ethertype.Kind]int{}}
}

// take takes in what has come.
func (p *packets) take() {
	for {
		k, err := p.Recv(p.views)
		if k == 0 || err != nil {
			return
		}
		for _, frame := range p.views[:k] {
			var h ethertype.Header
			if _, err := h.Parse(frame); err == nil {
				p.kinds[h.Kind]++
				p.took += len(frame)
				if h.Kind == ethertype.KindRetry {
					p.token = h.Sack
				}
			}
		}
	}
}

// throw sends a frame, and waits while the line is busy.
func (p *packets) throw(f transport.Frame) {
	for {
		if k, err := p.Send([]transport.Frame{f}); k == 1 || err != nil {
			return
		}
		p.pause(100 * time.Microsecond)
	}
}

// pause lets time go by, and takes in what comes.
func (p *packets) pause(d time.Duration) {
	for end := p.Now() + int64(d); p.Now() < end; p.take() {
		if p.Wait(end) != nil {
			return
		}
	}
}

// asks returns the request of a client at an address, which does not exist but in this
// frame, with default attributes.
func asks(to, from ethertype.Addr, tag uint32, token uint64) transport.Frame {
	info := make([]byte, 34)
	be := binary.BigEndian
	be.PutUint32(info[8:], tag)
	be.PutUint32(info[16:], 1500)
	be.PutUint32(info[20:], vipl.MaxTransferSize)
	info[28] = byte(vipl.DefaultAttributes().Reliability)
	be.PutUint16(info[32:], 1)
	return control(ethertype.Header{Dst: to.MAC, Src: from.MAC, Kind: ethertype.KindRequest, DstPort: to.Port, SrcPort: from.Port, Sack: token}, info)
}

// stranded returns the address of a station that does not exist.
func stranded(i int) ethertype.Addr {
	return ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 0, byte(i >> 8), byte(i)}, Port: uint16(1 + i%60000)}
}

// serial is a server that accepts one client after another, while over is not set.
func serial(over *bool, accepted *int) func(n *vipl.NIC) error {
	return func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		for !*over {
			ctx, cancel := n.WithTimeout(bg, time.Second)
			r, err := l.Wait(ctx)
			if cancel(); errors.Is(err, vipl.ErrTimeout) {
				continue
			} else if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if r.Accept(bg, v) == nil {
				*accepted++
			} else {
				v.Close()
			}
		}
		return nil
	}
}

// asksPeer is asks for a peer-to-peer connection, by a VI of MaxTransferSize 5, which
// matches nobody's.
func asksPeer(to, from ethertype.Addr, discriminator string) transport.Frame {
	info := append(asks(to, from, 7, 0).Head[ethertype.HeaderSize:], byte(from.Port>>8), byte(from.Port), 0, 0, 0, 1)
	info = append(info, discriminator...)
	be := binary.BigEndian
	be.PutUint32(info[20:], 5)
	be.PutUint16(info[30:], uint16(len(info)-34))
	info[29] = 2
	return control(ethertype.Header{Dst: to.MAC, Src: from.MAC, Kind: ethertype.KindRequest, DstPort: to.Port, SrcPort: from.Port}, info)
}

// besieged runs a server that accepts one client after another, beside it what a stranger
// does, and some clients afterwards, each of which is to be connected soon.
func besieged(t *testing.T, soon time.Duration, attack func(p *packets, server ethertype.Addr)) {
	t.Helper()
	const clients = 3
	w := newWorld(sim.Options{Seed: 1})
	over, accepted, stormed := false, 0, false
	station := w.node("server", nil, serial(&over, &accepted))
	to := ethertype.Addr{MAC: station.MAC(), Port: service}
	p := newPackets(w, "stranger")
	w.Go("stranger", func() {
		p.pause(10 * time.Millisecond) // until the server listens
		attack(p, to)
		for stormed = true; !over; p.pause(10 * time.Millisecond) {
		}
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		defer func() { over = true }()
		for !stormed {
			driveFor(n, time.Millisecond)
		}
		for i := range clients {
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			began := n.Now()
			if err := v.Connect(bg, to, nil); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			if took := time.Duration(n.Now() - began); took > soon {
				return fmt.Errorf("client %d was connected after %v, want %v", i, took, soon)
			}
		}
		return nil
	})
	if err := w.run(); err != nil || accepted != clients {
		t.Errorf("%v; %d clients were accepted", err, accepted)
	}
}

// TestRequestFlood: requests in the name of others keep nobody from a listener.
func TestRequestFlood(t *testing.T) {
	besieged(t, 500*time.Millisecond, func(p *packets, server ethertype.Addr) {
		for i := range 20_000 {
			p.throw(asks(server, stranded(i), uint32(i+1), 0))
			if i%64 == 0 {
				p.pause(10 * time.Microsecond)
			}
		}
	})
}

// TestHalfOpen: nor do requesters that prove their address and then fall silent.
func TestHalfOpen(t *testing.T) {
	besieged(t, 3*time.Second, func(p *packets, server ethertype.Addr) {
		for i := range 1000 {
			from := ethertype.Addr{MAC: p.MAC(), Port: uint16(1 + i)}
			p.throw(asks(server, from, uint32(i+1), 0))
			p.pause(100 * time.Microsecond)
			p.throw(asks(server, from, uint32(i+1), p.token))
			p.pause(100 * time.Microsecond)
		}
	})
}

// TestSilentOnly: a client that is heard, however long its handshake takes, is not passed
// over for others who wait: here one whose long frames do not pass.
func TestSilentOnly(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	var narrow *sim.Station
	w.Script(func(_ int64, from, _ *sim.Station, frame []byte) sim.Action {
		return sim.Action{Drop: from == narrow && len(frame) > 500}
	})
	listening := false
	station := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		listening = true
		for _, want := range []error{vipl.ErrInvalidMTU, nil} {
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := r.Accept(bg, v); !errors.Is(err, want) {
				return fmt.Errorf("accept: %w, want %v", err, want)
			}
		}
		driveFor(n, time.Second)
		return nil
	})
	client := func(after time.Duration, want error) func(n *vipl.NIC) error {
		return func(n *vipl.NIC) error {
			for !listening {
				driveFor(n, time.Millisecond)
			}
			driveFor(n, after)
			v, err := n.CreateVI(nil, nil, nil)
			if err == nil {
				err = v.Connect(bg, ethertype.Addr{MAC: station.MAC(), Port: service}, nil)
			}
			if !errors.Is(err, want) {
				return fmt.Errorf("connect: %w, want %v", err, want)
			}
			return nil
		}
	}
	narrow = w.node("narrow", nil, client(0, vipl.ErrInvalidMTU))
	w.node("client", nil, client(10*time.Millisecond, nil))
	if err := w.run(); err != nil {
		t.Error(err)
	}
}

// TestAmplification: the station named as the sender of a request, which does not answer, gets
// one frame that is no longer than the request, whatever the server does.
func TestAmplification(t *testing.T) {
	for name, serve := range map[string]func(n *vipl.NIC, l *vipl.Listener) error{
		"Wait": func(n *vipl.NIC, l *vipl.Listener) error {
			ctx, cancel := n.WithTimeout(bg, time.Second)
			defer cancel()
			if r, err := l.Wait(ctx); !errors.Is(err, vipl.ErrTimeout) {
				return fmt.Errorf("request %v, %v", r, err)
			}
			return nil
		},
		"Close":  func(n *vipl.NIC, l *vipl.Listener) error { driveFor(n, time.Second); return l.Close() },
		"Nobody": func(n *vipl.NIC, l *vipl.Listener) error { return l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 1})
			victim := newPackets(w, "victim")
			server := w.node("server", nil, func(n *vipl.NIC) error {
				l, err := n.Listen(service)
				if err == nil {
					err = serve(n, l)
				}
				driveFor(n, 10*time.Second)
				return err
			})
			request := asks(ethertype.Addr{MAC: server.MAC(), Port: service}, ethertype.Addr{MAC: victim.MAC(), Port: 5}, 77, 0)
			w.Go("victim", func() {
				victim.pause(time.Millisecond)
				victim.throw(request)
				victim.pause(15 * time.Second)
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			if victim.took == 0 || victim.took > len(request.Head) {
				t.Errorf("%d bytes for %d: %v", victim.took, len(request.Head), victim.kinds)
			}
		})
	}
}

// TestPeerInName: a peer-to-peer request in the peer's name, whose attributes do not
// match, does not end the attempt, and has little sent to the peer.
func TestPeerInName(t *testing.T) {
	for name, mac := range map[string]byte{"Lower": 0, "Higher": 9} { // of the two sides only one waits for the other
		t.Run(name, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 1})
			p := packetsOn(w.StationWith(sim.StationOptions{Name: "peer", MAC: ethertype.MAC{2, mac, 0, 0, 0, 0}}))
			from := ethertype.Addr{MAC: p.MAC(), Port: 1024}
			station := w.node("victim", nil, func(n *vipl.NIC) error {
				v, err := n.CreateVI(nil, nil, nil)
				if err == nil {
					err = v.ConnectPeer(bg, from, []byte("both"))
				}
				if !errors.Is(err, vipl.ErrTimeout) {
					return fmt.Errorf("connect to a peer that never asks: %w", err)
				}
				return nil
			})
			w.Go("peer", func() {
				p.pause(2 * time.Millisecond) // its first request, and not yet the second
				p.took = 0
				request := asksPeer(ethertype.Addr{MAC: station.MAC(), Port: 1024}, from, "both")
				p.throw(request)
				p.pause(time.Millisecond)
				if p.took == 0 || p.took > 3*len(request.Head) {
					t.Errorf("%d bytes for %d: %v", p.took, len(request.Head), p.kinds)
				}
				p.pause(10 * time.Second)
			})
			if err := w.run(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnswersBounded: what a NIC answers to frames of anybody goes at a bounded rate.
func TestAnswersBounded(t *testing.T) {
	need.Simulated(t)
	for answer, ask := range map[ethertype.Kind]func(to, from ethertype.Addr, i int) transport.Frame{
		ethertype.KindReset: func(to, from ethertype.Addr, i int) transport.Frame {
			return control(ethertype.Header{Dst: to.MAC, Src: from.MAC, Kind: ethertype.KindAck, DstPort: to.Port + 9, SrcPort: from.Port, Tag: uint32(i + 1)}, nil)
		},
		ethertype.KindReject: func(to, from ethertype.Addr, i int) transport.Frame { return asks(to, from, uint32(i+1), 0) },
		ethertype.KindAnswer: func(to, from ethertype.Addr, i int) transport.Frame {
			return control(ethertype.Header{Dst: ethertype.Broadcast, Src: from.MAC, Kind: ethertype.KindQuery, SrcPort: from.Port, Tag: uint32(i + 1)}, nil)
		},
		ethertype.KindEchoReply: func(to, from ethertype.Addr, i int) transport.Frame {
			return control(ethertype.Header{Dst: to.MAC, Src: from.MAC, Kind: ethertype.KindEcho, SrcPort: from.Port}, make([]byte, 8))
		},
	} {
		t.Run(answer.String(), func(t *testing.T) {
			const count, rate = 60_000, 100_000 // per second, of any kind
			w := newWorld(sim.Options{Seed: 1})
			over := false
			var refused, received uint64
			server := w.node("server", nil, func(n *vipl.NIC) error {
				for !over {
					driveFor(n, time.Millisecond)
				}
				s := n.Snapshot()
				refused, received = s.Unanswered, s.RxFrames
				return nil
			})
			p := newPackets(w, "stranger")
			to, from := ethertype.Addr{MAC: server.MAC(), Port: service}, ethertype.Addr{MAC: p.MAC(), Port: 5}
			w.Go("stranger", func() {
				defer func() { over = true }()
				p.pause(time.Millisecond)
				began := p.Now()
				for i := range count {
					p.throw(ask(to, from, i))
					if i%64 == 0 {
						p.pause(10 * time.Microsecond)
					}
				}
				p.pause(5 * time.Millisecond)
				n, limit := p.kinds[answer], vipl.MaxVIs+int(rate*(p.Now()-began)/int64(time.Second))
				if n < 1000 || n > limit {
					t.Errorf("%d answers to %d frames, want at most %d", n, count, limit)
				}
				p.pause(time.Second)
				p.throw(ask(to, from, count))
				if p.pause(5 * time.Millisecond); p.kinds[answer] != n+1 {
					t.Error("no answer although the flood is over")
				}
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			if int(refused)+p.kinds[answer] != int(received) {
				t.Errorf("%d of %d frames were answered, and %d counted as not answered", p.kinds[answer], received, refused)
			}
		})
	}
}
