package vipl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// outcome is how one handshake ended at both sides.
type outcome struct {
	client, server       error
	clientEnd, serverEnd vipl.State // a while later
}

// typed reports whether a failed handshake says so in VIPL's terms.
func typed(err error) bool {
	var conn *vipl.ConnError
	return err == nil || errors.As(err, &conn) && (errors.Is(err, vipl.ErrTimeout) || errors.Is(err, vipl.ErrInvalidMTU) || errors.Is(err, vipl.ErrDisconnected) || errors.Is(err, vipl.ErrPeerReset))
}

// shake makes one connection and lets a while pass, in which both sides find
// out that the other has failed, if it has.
func shake(opts sim.Options, level reliability.Level) (o outcome, err error) {
	w := newWorld(opts)
	attr := &vipl.Attributes{Reliability: level}
	var listening bool
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		listening = true
		ctx, cancel := n.WithTimeout(bg, time.Minute)
		defer cancel()
		r, err := l.Wait(ctx)
		if err != nil {
			return nil // no proven request has arrived, and the client knows
		}
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		o.server = r.Accept(bg, v)
		o.serverEnd = endState(v)
		return nil
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		for !listening {
			driveFor(n, time.Millisecond)
		}
		o.client = v.Connect(bg, ethertype.Addr{MAC: server.MAC(), Port: service}, nil)
		o.clientEnd = endState(v)
		return nil
	})
	return o, w.run()
}

// endState returns the state that v has half a minute after its world began.
func endState(v *vipl.VI) vipl.State {
	n, end := v.NIC(), sim.Start+int64(30*time.Second)
	driveFor(n, time.Duration(end-n.Now()))
	state := v.State()
	driveFor(n, time.Second) // so that the other's does not depend on our leaving
	return state
}

// driveFor drives a simulated NIC for d, and its timers not too precisely.
func driveFor(n *vipl.NIC, d time.Duration) {
	step := int64(min(max(d/300, time.Millisecond), 100*time.Millisecond))
	for end := n.Now() + int64(d); n.Now() < end; {
		n.Poll()
		if seam.Link(n).Wait(min(n.Now()+step, end)) != nil {
			return
		}
	}
}

// TestHandshake wants every handshake under faults to succeed; where most
// frames are lost it may fail as well, with a typed error.
func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		name string
		opts sim.Options
	}{
		{"Loss30", sim.Options{Loss: 0.3}},
		{"Loss80", sim.Options{Loss: 0.8}},
		{"ReorderingDuplication", sim.Options{Dup: 0.3, Reorder: 0.5, ReorderBy: 16, Hold: 20 * time.Millisecond}},
		{"Corruption30", sim.Options{Corrupt: 0.3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mild := c.opts.Loss < 0.5
			seeds(t, manySeeds, func(seed uint64) error {
				opts := c.opts
				opts.Seed = seed
				opts.MTU = []int{1500, 9000}[seed%2]
				o, err := shake(opts, reliableLevels[seed%2])
				switch {
				case err != nil && mild:
					return err
				case mild && (o.client != nil || o.server != nil):
					return fmt.Errorf("seed %d: the handshake failed; client: %v, server: %v", seed, o.client, o.server)
				case !typed(o.client) || !typed(o.server):
					return fmt.Errorf("seed %d: client: %v, server: %v", seed, o.client, o.server)
				case (o.clientEnd == vipl.StateConnected) != (o.serverEnd == vipl.StateConnected) && mild:
					return fmt.Errorf("seed %d: client %v (%v), server %v (%v)", seed, o.clientEnd, o.client, o.serverEnd, o.server)
				}
				return nil
			})
		})
	}
}

// TestManyConnectAtOnce lets more clients than the backlog holds connect to
// one listener at the same moment, under loss.
func TestManyConnectAtOnce(t *testing.T) {
	const clients = 40
	const each = 8
	seeds(t, 3, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.05})
		server := w.node("server", nil, func(n *vipl.NIC) error {
			l, err := n.Listen(service)
			if err != nil {
				return err
			}
			var vis []*vipl.VI
			driveFor(n, 30*time.Millisecond) // the backlog overflows
			for range clients * each {
				r, err := l.Wait(bg)
				if err != nil {
					return err
				}
				v, err := n.CreateVI(nil, nil, nil)
				if err != nil {
					return err
				}
				if err := r.AcceptStart(v); err != nil {
					return err
				}
				vis = append(vis, v)
			}
			if n.Snapshot().Dropped[drops.Backlog] == 0 {
				return errors.New("the backlog did not overflow: it tests nothing")
			}
			return allConnected(n, vis)
		})
		for i := range clients {
			w.node(fmt.Sprint("client", i), &vipl.Config{Seed: seed<<16 + uint64(i)}, func(n *vipl.NIC) error {
				driveFor(n, time.Millisecond)
				var vis []*vipl.VI
				for range each {
					v, err := n.CreateVI(nil, nil, nil)
					if err != nil {
						return err
					}
					if err := v.ConnectStart(ethertype.Addr{MAC: server.MAC(), Port: service}, nil); err != nil {
						return err
					}
					vis = append(vis, v)
				}
				return allConnected(n, vis)
			})
		}
		return w.run()
	})
}

func allConnected(n *vipl.NIC, vis []*vipl.VI) error {
	for _, v := range vis {
		for v.ConnectDone() == vipl.ErrNotDone {
			driveFor(n, time.Millisecond)
		}
		if err := v.ConnectDone(); err != nil {
			return err
		}
	}
	driveFor(n, 2*time.Second)
	return nil
}

// serveOne runs serve with the first request at a listener, and client with a
// VI of the given attributes.
func serveOne(opts sim.Options, attr *vipl.Attributes, serve func(n *vipl.NIC, r *vipl.Request) error, client func(v *vipl.VI, server ethertype.Addr) error) error {
	w := newWorld(opts)
	return w.serveOne(w.Station("server"), w.Station("client"), attr, serve, client)
}

func (w *world) serveOne(server, client *sim.Station, attr *vipl.Attributes, serve func(n *vipl.NIC, r *vipl.Request) error, dial func(v *vipl.VI, server ethertype.Addr) error) error {
	w.nodeOn(server, "server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		return serve(n, r)
	})
	w.nodeOn(client, "client", nil, func(n *vipl.NIC) error {
		driveFor(n, time.Millisecond)
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		return dial(v, ethertype.Addr{MAC: server.MAC(), Port: service})
	})
	return w.run()
}

func TestRejectWithText(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		return serveOne(sim.Options{Seed: seed, Loss: 0.3}, nil,
			func(n *vipl.NIC, r *vipl.Request) error {
				if string(r.Data()) != "who goes there" {
					return fmt.Errorf("private data: %q", r.Data())
				}
				if err := r.Reject("come back\nlater"); err != nil {
					return err
				}
				if err := r.Reject("again"); !errors.Is(err, vipl.ErrInvalidState) {
					return fmt.Errorf("second reject: %v", err)
				}
				driveFor(n, 5*time.Second) // repeats the refusal
				return nil
			},
			func(v *vipl.VI, server ethertype.Addr) error {
				err := v.Connect(bg, server, []byte("who goes there"))
				if !errors.Is(err, vipl.ErrReject) || !strings.Contains(err.Error(), "come back?later") {
					return fmt.Errorf("connect: %v, want ErrReject and the text", err)
				}
				if v.State() != vipl.StateIdle {
					return fmt.Errorf("state %v after a rejection", v.State())
				}
				return nil
			})
	})
}

func TestNobodyListens(t *testing.T) {
	err := serveOne(sim.Options{Seed: 1}, nil,
		func(n *vipl.NIC, r *vipl.Request) error { return r.Reject("") },
		func(v *vipl.VI, server ethertype.Addr) error {
			began := v.NIC().Now()
			wrong := server
			wrong.Port++
			if err := v.Connect(bg, wrong, nil); !errors.Is(err, vipl.ErrNoMatch) {
				return fmt.Errorf("no listener: %v, want ErrNoMatch", err)
			}
			if took := time.Duration(v.NIC().Now() - began); took > time.Millisecond {
				return fmt.Errorf("ErrNoMatch took %v, want it at once", took)
			}
			nobody := ethertype.Addr{MAC: ethertype.MAC{2, 9, 9, 9, 9, 9}, Port: service}
			if err := v.Connect(bg, nobody, nil); !errors.Is(err, vipl.ErrTimeout) || !strings.Contains(err.Error(), fmt.Sprintf("(try: bobnet ping %v)", nobody.MAC)) {
				return fmt.Errorf("no host: %v, want ErrTimeout", err)
			}
			if err := v.Connect(bg, server, nil); !errors.Is(err, vipl.ErrReject) {
				return fmt.Errorf("third attempt: %v, want ErrReject", err)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAcceptedAndGone: the server accepts and leaves, and its word that it did is
// lost. The client, which still proves the MTU, learns it at once all the same; and
// when it repeats its request, if it has not heard that it was accepted either.
func TestAcceptedAndGone(t *testing.T) {
	t.Run("Disconnect lost", func(t *testing.T) {
		acceptedAndGone(t, vipl.ErrDisconnected, time.Millisecond, ethertype.KindDisconnect)
	})
	t.Run("both lost", func(t *testing.T) {
		acceptedAndGone(t, vipl.ErrNoMatch, 10*time.Millisecond, ethertype.KindDisconnect, ethertype.KindAccept)
	})
}

// acceptedAndGone wants the client's error, and within limit, when frames of some
// kinds are lost.
func acceptedAndGone(t *testing.T, want error, limit time.Duration, lost ...ethertype.Kind) {
	w := newWorld(sim.Options{Seed: 1})
	client := w.Station("client")
	w.Script(func(_ int64, _, to *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		_, err := h.Parse(frame)
		return sim.Action{Drop: err == nil && to == client && slices.Contains(lost, h.Kind)}
	})
	err := w.serveOne(w.Station("server"), client, nil,
		func(n *vipl.NIC, r *vipl.Request) error {
			v, err := n.CreateVI(nil, nil, nil)
			if err == nil {
				err = r.AcceptStart(v)
			}
			if err != nil {
				return err
			}
			v.Close()
			driveFor(n, 5*time.Second)
			return nil
		},
		func(v *vipl.VI, server ethertype.Addr) error {
			began := v.NIC().Now()
			if err := v.Connect(bg, server, nil); !errors.Is(err, want) {
				return fmt.Errorf("connect: %v, want %w", err, want)
			}
			if took := time.Duration(v.NIC().Now() - began); took > limit {
				return fmt.Errorf("%w took %v", want, took)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// namesBoth wants err to be of the kind want and to name both sides and what
// each of them has.
func namesBoth(err, want error, local, remote ethertype.Addr, attribute string, here, there any) error {
	var conn *vipl.ConnError
	detail := fmt.Sprintf("%s is %v here and %v there", attribute, here, there)
	if !errors.Is(err, want) || !errors.As(err, &conn) || conn.Local != local || conn.Remote != remote || !strings.Contains(conn.Detail, detail) {
		return fmt.Errorf("%v, want %v from %v to %v: %s", err, want, local, remote, detail)
	}
	return nil
}

// TestAttributesMismatch wants VIPL's codes at the server, with both sides and
// values named, no word to the client, and that another VI can take the request.
func TestAttributesMismatch(t *testing.T) {
	err := serveOne(sim.Options{Seed: 1}, &vipl.Attributes{QoS: 7, MaxTransferSize: 1000},
		func(n *vipl.NIC, r *vipl.Request) error {
			for _, c := range []struct {
				attr        vipl.Attributes
				want        error
				name        string
				here, there any
			}{
				{vipl.Attributes{QoS: 7, MaxTransferSize: 1000, Reliability: reliability.ReliableReception}, vipl.ErrInvalidReliability, "Reliability", "reception", "delivery"},
				{vipl.Attributes{QoS: 7, MaxTransferSize: 1001}, vipl.ErrInvalidMTU, "MaxTransferSize", 1001, 1000},
				{vipl.Attributes{QoS: 8, MaxTransferSize: 1000}, vipl.ErrInvalidQoS, "QoS", 8, 7},
			} {
				v, err := n.CreateVI(&c.attr, nil, nil)
				if err != nil {
					return err
				}
				if err := namesBoth(r.Accept(bg, v), c.want, v.Local(), r.Remote(), c.name, c.here, c.there); err != nil {
					return err
				}
				if v.State() != vipl.StateIdle {
					return fmt.Errorf("%v after %v", v.State(), c.want)
				}
			}
			a := r.Attributes()
			v, err := n.CreateVI(&a, nil, nil)
			if err != nil {
				return err
			}
			err = r.Accept(bg, v)
			driveFor(n, time.Second)
			return err
		},
		func(v *vipl.VI, server ethertype.Addr) error { return v.Connect(bg, server, nil) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceMTUs wants the smaller of two MTUs agreed on.
func TestInterfaceMTUs(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	in := &inbox{count: 3, size: 30_000, seed: 1}
	err := w.serveOne(w.StationWith(sim.StationOptions{Name: "server", MTU: 1500}), w.StationWith(sim.StationOptions{Name: "client", MTU: 9000}), nil,
		func(n *vipl.NIC, r *vipl.Request) error {
			v, err := n.CreateVI(nil, nil, nil)
			if err == nil {
				err = in.post(v)
			}
			if err == nil {
				err = r.Accept(bg, v)
			}
			if err == nil {
				err = in.receive(v)
			}
			driveFor(n, time.Second)
			return err
		},
		func(v *vipl.VI, server ethertype.Addr) error {
			if err := v.Connect(bg, server, nil); err != nil {
				return err
			}
			return sendAll(v, 3, 30_000, 1)
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPathMTU puts something on the path that drops big frames, one way or
// the other, and wants both sides named.
func TestPathMTU(t *testing.T) {
	for _, way := range []string{"client", "server"} {
		t.Run("from"+way, func(t *testing.T) {
			w := newWorld(sim.Options{Seed: 1, MTU: 9000})
			w.Script(func(now int64, from, to *sim.Station, frame []byte) sim.Action {
				return sim.Action{Drop: len(frame) > 1514 && from.String() == way}
			})
			server, client := w.Station("server"), w.Station("client")
			var gaveUp int64
			err := w.serveOne(server, client, nil,
				func(n *vipl.NIC, r *vipl.Request) error {
					v, err := n.CreateVI(nil, nil, nil)
					if err != nil {
						return err
					}
					err = r.Accept(bg, v)
					if way == "client" {
						if err == nil {
							return errors.New("the server believes in a connection that the client has given up")
						}
						if !errors.Is(err, vipl.ErrInvalidMTU) || !strings.Contains(err.Error(), client.MAC().String()) {
							return fmt.Errorf("accept: %w, want ErrInvalidMTU, which the client has measured, and its address", err)
						}
						return nil
					}
					for err == nil && v.State() == vipl.StateConnected { // the probe passed, its answer did not
						driveFor(n, time.Millisecond)
					}
					if late := time.Duration(n.Now() - gaveUp); err != nil || gaveUp == 0 || late > 10*time.Millisecond {
						return fmt.Errorf("the server heard %v after the client gave up: %w", late, err)
					}
					return nil
				},
				func(v *vipl.VI, to ethertype.Addr) error {
					err := v.Connect(bg, to, nil)
					gaveUp = w.Now()
					if !errors.Is(err, vipl.ErrInvalidMTU) || !strings.Contains(err.Error(), server.MAC().String()) ||
						!strings.Contains(err.Error(), client.MAC().String()) {
						return fmt.Errorf("connect: %v, want ErrInvalidMTU and both sides", err)
					}
					driveFor(v.NIC(), 10*time.Second)
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestConnectTimeout: an attempt without a deadline of its own takes as long as
// the VI's ConnectTimeout says, shorter or longer than the default; one that has a
// deadline goes by that.
func TestConnectTimeout(t *testing.T) {
	nobody := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: service}
	attempts := map[string]func(d *duo, v *vipl.VI) error{
		"Connect":          func(_ *duo, v *vipl.VI) error { return v.Connect(bg, nobody, nil) },
		"ConnectStart":     func(_ *duo, v *vipl.VI) error { return v.ConnectStart(nobody, nil) },
		"ConnectPeer":      func(_ *duo, v *vipl.VI) error { return v.ConnectPeer(bg, nobody, nil) },
		"ConnectPeerStart": func(_ *duo, v *vipl.VI) error { return v.ConnectPeerStart(nobody, nil) },
		"Accept":           func(d *duo, v *vipl.VI) error { return d.request().Accept(bg, v) },
		"AcceptStart":      func(d *duo, v *vipl.VI) error { return d.request().AcceptStart(v) },
	}
	for name, attempt := range attempts {
		for _, limit := range []time.Duration{100 * time.Millisecond, 0, time.Minute} {
			t.Run(name+"/"+limit.String(), func(t *testing.T) {
				d := newDuo(t, nil, nil)
				v, err := d.na.CreateVI(&vipl.Attributes{ConnectTimeout: limit}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				want := limit
				if want == 0 {
					want = vipl.DefaultConnectTimeout
				}
				began := d.na.Now()
				for err = attempt(d, v); err == nil || err == vipl.ErrNotDone; err = v.ConnectDone() {
					*d.links[0].clock += int64(time.Millisecond)
				}
				if took := time.Duration(d.na.Now() - began); !errors.Is(err, vipl.ErrTimeout) || took < want || took > want+want/10 {
					t.Errorf("%v after %v, want a time-out after %v", err, took, want)
				}
			})
		}
	}
	d := newDuo(t, nil, nil)
	v := d.idle(d.na)
	ctx, cancel := d.na.WithTimeout(bg, time.Second)
	defer cancel()
	began := d.na.Now()
	if err := v.Connect(ctx, nobody, nil); !errors.Is(err, vipl.ErrTimeout) || d.na.Now()-began > int64(2*time.Second) {
		t.Errorf("%v after %v, want a time-out after a second", err, time.Duration(d.na.Now()-began))
	}
	if _, err := d.na.CreateVI(&vipl.Attributes{ConnectTimeout: -1}, nil, nil); !errors.Is(err, vipl.ErrArgument) {
		t.Errorf("negative: %v", err)
	}
}

// request returns a request at a, whose requester goes silent.
func (d *duo) request() *vipl.Request {
	d.t.Helper()
	l, err := d.na.Listen(service)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.idle(d.nb).ConnectStart(l.Addr(), nil); err != nil {
		d.t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// TestRequesterGone: requests of clients that have given up cost a server no
// time-out each. Accept says that they have gone, also when frames are lost.
func TestRequesterGone(t *testing.T) {
	for _, c := range []struct {
		loss  float64
		limit time.Duration // for each of them
	}{{0, time.Millisecond}, {0.3, vipl.DefaultConnectTimeout - time.Millisecond}} {
		t.Run(fmt.Sprint("loss=", c.loss), func(t *testing.T) {
			seeds(t, 20, func(seed uint64) error { return goneRequesters(sim.Options{Seed: seed, Loss: c.loss}, c.limit) })
		})
	}
}

func goneRequesters(opts sim.Options, limit time.Duration) error {
	const tries = 4
	w := newWorld(opts)
	from := sim.Start + int64(time.Second) // when the server begins to look
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		driveFor(n, time.Duration(from-n.Now()))
		for {
			r, err := l.Wait(bg)
			if err != nil {
				return err
			}
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			live := string(r.Data()) == "live"
			began := n.Now()
			err = r.Accept(bg, v)
			took := time.Duration(n.Now() - began)
			switch {
			case live:
				driveFor(n, time.Second)
				return err
			case !errors.Is(err, vipl.ErrDisconnected) || took > limit:
				return fmt.Errorf("accept of one that has given up: %w after %v", err, took)
			}
		}
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		driveFor(n, time.Millisecond)
		to := ethertype.Addr{MAC: server.MAC(), Port: service}
		for range tries {
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
			err = v.Connect(ctx, to, nil)
			cancel()
			if !errors.Is(err, vipl.ErrTimeout) {
				return fmt.Errorf("connect to a server that is busy: %v", err)
			}
			v.Close()
		}
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		ctx, cancel := n.WithTimeout(bg, 30*time.Second)
		defer cancel()
		if err = v.Connect(ctx, to, []byte("live")); err == nil {
			driveFor(n, time.Second)
		}
		return err
	})
	return w.run()
}

// TestPeerTriesAgain: of two that connect as peers, one gives up while the
// other answers it, and tries again. The other has gone on waiting for that.
func TestPeerTriesAgain(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	stations := [2]*sim.Station{w.Station("left"), w.Station("right")}
	const answered = sim.Start + int64(200*time.Millisecond) // until then answers are lost
	resets := 0
	w.Script(func(now int64, _, _ *sim.Station, frame []byte) sim.Action {
		var h ethertype.Header
		_, err := h.Parse(frame)
		if err == nil && h.Kind == ethertype.KindReset {
			resets++
		}
		return sim.Action{Drop: err == nil && h.Kind == ethertype.KindAccept && now < answered}
	})
	for i, s := range stations {
		other := ethertype.Addr{MAC: stations[1-i].MAC(), Port: stations[1-i].Info().Ports.Lo}
		w.nodeOn(s, s.String(), nil, func(n *vipl.NIC) error {
			v, err := n.CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if i == 0 { // the lower address: it asks, and the other answers
				ctx, cancel := n.WithTimeout(bg, 100*time.Millisecond)
				err := v.ConnectPeer(ctx, other, []byte("x"))
				cancel()
				if !errors.Is(err, vipl.ErrTimeout) {
					return fmt.Errorf("first attempt: %v", err)
				}
				driveFor(n, time.Second)
			}
			if err := v.ConnectPeer(bg, other, []byte("x")); err != nil {
				return err
			}
			driveFor(n, time.Second)
			return nil
		})
	}
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if resets == 0 {
		t.Error("nothing told the other that the first attempt is over: the test tests nothing")
	}
}

// TestGivenUpInHandshake: a client whose server leaves in the middle of the
// handshake learns so by the first word, not by what answers its next try.
func TestGivenUpInHandshake(t *testing.T) {
	d := newDuo(t, nil, nil)
	server, client := d.idle(d.na), d.idle(d.nb)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := client.ConnectStart(l.Addr(), nil); err != nil {
		t.Fatal(err)
	}
	r, err := taken(l, d.nb)
	if err == nil {
		err = r.AcceptStart(server)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.nb.Poll() // sends the probe
	if err := server.Disconnect(); err != nil {
		t.Fatal(err)
	}
	d.nb.Poll()
	if err := client.ConnectDone(); !errors.Is(err, vipl.ErrDisconnected) {
		t.Errorf("ConnectDone = %v (%v), want ErrDisconnected", err, client.State())
	}
}
