package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// connected is when every handshake on a segment that loses little is over.
const connected = sim.Start + 100_000_000

// TestBlackhole lets all frames vanish for 5 s in the middle of a transfer. The
// default PeerTimeout bears it, and nothing is lost.
func TestBlackhole(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		const hole, count, size = int64(5 * time.Second), 60, 20_000
		w := newWorld(sim.Options{Seed: seed, Bandwidth: 1e9, Loss: 0.01})
		begin := connected + int64(1+seed%80)*100_000
		w.Script(func(now int64, from, to *sim.Station, frame []byte) sim.Action {
			return sim.Action{Drop: now >= begin && now < begin+hole}
		})
		var through int64
		in := &inbox{count: count, size: size, seed: seed}
		attr := &vipl.Attributes{Reliability: reliableLevels[seed%2]}
		err := w.pair(attr, func(v *vipl.VI) error {
			driveFor(v.NIC(), time.Duration(connected-w.Now()))
			return sendAll(v, count, size, seed)
		}, in.post, func(v *vipl.VI) error {
			err := in.receive(v)
			through = w.Now()
			driveFor(v.NIC(), vipl.DefaultPeerTimeout) // the last acknowledgement may be lost
			return err
		})
		if err != nil {
			return err
		}
		if through < begin+hole {
			return fmt.Errorf("the transfer was over at %v, before the blackhole was: it tests nothing", time.Duration(through))
		}
		return nil
	})
}

// TestPeerTimeout lets a peer fall silent for good: in the middle of a
// transfer, and on an idle connection, where keepalives must find out.
func TestPeerTimeout(t *testing.T) {
	for _, idle := range []bool{false, true} {
		for _, limit := range []time.Duration{500 * time.Millisecond, 3 * time.Second, 0, time.Minute} {
			t.Run(fmt.Sprintf("idle=%v/%v", idle, limit), func(t *testing.T) {
				if err := silence(idle, limit); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func silence(idle bool, limit time.Duration) error {
	w := newWorld(sim.Options{Seed: 5})
	var since int64
	w.Script(func(now int64, from, to *sim.Station, frame []byte) sim.Action {
		return sim.Action{Drop: since != 0 && now >= since}
	})
	attr := &vipl.Attributes{PeerTimeout: limit}
	if limit == 0 {
		limit = vipl.DefaultPeerTimeout
	}
	end := func(v *vipl.VI) error {
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		if since == 0 {
			since = w.Now() + int64(time.Second)
		}
		driveFor(v.NIC(), 2*time.Second)
		if limit > time.Second && v.State() != vipl.StateConnected {
			return fmt.Errorf("gave up too early: %v", v.Err())
		}
		if !idle {
			out, _ := newBuffers(v.NIC(), 1, 1)
			if err := v.PostSend(&out.descs[0]); err != nil {
				return err
			}
		}
		d, err := v.RecvWait(bg)
		took := time.Duration(w.Now() - since)
		switch {
		case !errors.Is(err, vipl.ErrDescriptor) || d.Status != vipl.StatusDone|vipl.StatusOpReceive|vipl.StatusFlushed:
			return fmt.Errorf("receive: %v", err)
		case !errors.Is(err, vipl.ErrUnreachable) || !strings.Contains(err.Error(), "completed in error: connection "):
			return fmt.Errorf("the receive's error does not say why: %w", err)
		case !errors.Is(v.Err(), vipl.ErrUnreachable) || v.State() != vipl.StateError:
			return fmt.Errorf("VI: %v, %v", v.State(), v.Err())
		case took < limit-time.Second && limit > 2*time.Second || took > limit+limit/4+2*time.Second:
			return fmt.Errorf("gave up %v after the peer fell silent, want about %v", took, limit)
		}
		return nil
	}
	return w.pair(attr, end, nil, end)
}

// TestIdleUnderLoss wants keepalives not to take a lossy peer for a dead one.
func TestIdleUnderLoss(t *testing.T) {
	seeds(t, manySeeds, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.3})
		end := func(v *vipl.VI) error {
			if state := endState(v); state != vipl.StateConnected {
				return fmt.Errorf("%v: %w", state, v.Err())
			}
			return nil
		}
		return w.pair(nil, end, nil, end)
	})
}

// TestLinkClosedUnderTheNIC wants every wait to end when the link goes away.
func TestLinkClosedUnderTheNIC(t *testing.T) {
	w := newWorld(sim.Options{Seed: 1})
	station := w.Station("server")
	w.nodeOn(station, "server", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(nil, nil, nil)
		if err != nil {
			return err
		}
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		w.At(w.Now()+1000, func() { station.Close() })
		if _, err := v.RecvWait(bg); !errors.Is(err, vipl.ErrLink) {
			return fmt.Errorf("idle VI: %v, want ErrLink", err)
		}
		if err := v.Connect(bg, ethertype.Addr{MAC: ethertype.MAC{2, 7}, Port: 3}, nil); !errors.Is(err, vipl.ErrLink) {
			return fmt.Errorf("connect: %v, want ErrLink", err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	w = newWorld(sim.Options{Seed: 1})
	err := w.pair(nil, func(v *vipl.VI) error { driveFor(v.NIC(), time.Second); return nil }, nil, func(v *vipl.VI) error {
		in := &inbox{count: 1, size: 8}
		if err := in.post(v); err != nil {
			return err
		}
		w.At(w.Now()+1000, func() { seam.Link(v.NIC()).Close() })
		if _, err := v.RecvWait(bg); !errors.Is(err, vipl.ErrDescriptor) || !errors.Is(v.Err(), vipl.ErrLink) {
			return fmt.Errorf("connected VI: %v, %w", err, v.Err())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestProbesApart: the frames of a keepalive probe, which say the same, share no Ethernet frame: one
// is heard if another is lost.
func TestProbesApart(t *testing.T) {
	attr := &vipl.Attributes{PeerTimeout: 16 * time.Second}
	d := newDuo(t, attr, attr)
	d.run()
	before, sent := d.na.Snapshot().TxJoined, d.a.Snapshot().BareAcks
	for range 150 {
		*d.links[0].clock += int64(time.Second / 10) // with longer gaps this process had no processor
		d.na.Poll()                                  // and the other one is silent
	}
	if n := d.a.Snapshot().BareAcks - sent; n < 20 {
		t.Errorf("%d frames ask whether the peer lives", n)
	}
	if n := d.na.Snapshot().TxJoined - before; n > 0 {
		t.Errorf("%d of them share an Ethernet frame with another", n)
	}
}

// TestBlame: of messages that are under way together, one is too long or finds no
// receive. That one is blamed at the sender, those before it have been delivered
// and say so, those behind it are flushed; whether they share a frame or not, and
// whether the Disconnect arrives or has to be said again.
func TestBlame(t *testing.T) {
	const count, wrong = 8, 5
	for _, level := range reliableLevels {
		for _, cause := range []string{"TooLong", "NoReceive"} {
			for _, packed := range []bool{true, false} {
				for _, told := range []string{"heard", "error", "left"} { // what answers if the Disconnect is lost
					t.Run(fmt.Sprintf("%v/%s/packed=%v/%s", level, cause, packed, told), func(t *testing.T) {
						d := newDuo(t, &vipl.Attributes{Reliability: level}, &vipl.Attributes{Reliability: level})
						receives := make([]*vipl.Descriptor, count)
						for i := range receives {
							if cause == "TooLong" || i < wrong {
								receives[i] = d.post(d.b, 100)
							}
						}
						var sends []*vipl.Descriptor
						for i := range count {
							size := i + 1
							if i == wrong && cause == "TooLong" {
								size = 101
							}
							sends = append(sends, d.send(d.a, size))
							if !packed {
								d.a.Flush()
							}
						}
						if told != "heard" {
							loseDisconnect(d, told == "left")
						}
						d.run()
						checkBlame(d, sends, wrong, level)
						for i, r := range receives {
							if i < wrong {
								got, err := d.b.RecvDone()
								d.took(got, err, r, vipl.StatusOpReceive)
							}
						}
					})
				}
			}
		}
	}
}

// loseDisconnect loses the frame in which b says that the connection is over; if it
// has left besides, whatever it says then too.
func loseDisconnect(d *duo, left bool) {
	d.t.Helper()
	wire := d.links[0] // to a
	for i := 0; d.b.State() == vipl.StateConnected && i < 10; i++ {
		d.a.Flush()
		d.na.Poll()
		d.nb.Poll()
	}
	if d.b.State() != vipl.StateError {
		d.t.Fatal(d.b.State())
	}
	wire.tail-- // the Disconnect, which comes last
	if left {
		tail := wire.tail
		d.b.Disconnect()
		wire.tail = tail
	}
	for i := 0; d.a.State() == vipl.StateConnected && i < 100; i++ {
		d.run()
	}
}

func checkBlame(d *duo, sends []*vipl.Descriptor, wrong int, level reliability.Level) {
	d.t.Helper()
	for i, s := range sends {
		var status vipl.Status
		switch {
		case i == wrong:
			status = blamed(level)
		case i > wrong:
			status = vipl.StatusFlushed
		}
		got, err := d.a.SendDone()
		d.took(got, err, s, status)
	}
}

// TestStoppedProcess: a process that was stopped for longer than any peer may be
// silent does not take its peers for dead: it asks them first.
func TestStoppedProcess(t *testing.T) {
	attr := &vipl.Attributes{PeerTimeout: time.Second}
	d := newDuo(t, attr, attr)
	d.run()
	*d.links[0].clock += int64(time.Minute)
	d.na.Poll()
	d.alive()
	d.run()
	d.alive()
}

// TestShorterPeerTimeout: a PeerTimeout that is set on a connection counts from
// then on, not after the time that the former one allows.
func TestShorterPeerTimeout(t *testing.T) {
	const limit = 40 * time.Millisecond
	long := &vipl.Attributes{PeerTimeout: time.Hour}
	d := newDuo(t, long, long)
	d.run()
	a := d.a.Query().Attributes
	a.PeerTimeout = limit
	if err := d.a.SetAttributes(&a); err != nil {
		t.Fatal(err)
	}
	clock := d.links[0].clock
	for end := *clock + int64(2*limit); *clock < end; *clock += int64(time.Millisecond) { // b is silent
		d.na.Poll()
	}
	if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), vipl.ErrUnreachable) {
		t.Errorf("after %v of silence: %v, %v", 2*limit, d.a.State(), d.a.Err())
	}
}

// driverEnv tells the role hold its driver.
const driverEnv = "BOBNET_TEST_VIPL_DRIVER"

// heldPorts are the ports of the process that is killed.
var heldPorts = transport.PortRange{Lo: 5 * 1024, Hi: 6*1024 - 1}

// TestKilledProcess: a process that is killed while it holds ports, connections
// to three others in the midst of traffic and, to those on its host, shared
// rings, leaves nothing. Its peers are told, those on its host at once, and
// another process gets its ports.
func TestKilledProcess(t *testing.T) {
	for _, c := range []struct {
		driver string
		sides  [3]int // of the peers; the process is on side 0
	}{
		{"ring", [3]int{0, 1, 1}},
		{viplinks.XDP, [3]int{0, 1, 1}},
		{viplinks.UDP6, [3]int{0, 1, 1}},
		{"packet", [3]int{0, 1, 1}},
		{"udp", [3]int{0, 1, 1}},
		{"shm", [3]int{0, 0, 0}},
	} {
		t.Run(c.driver, func(t *testing.T) {
			t.Parallel()
			p := vethtest.NewWithQueues(t, 1500, 4)
			addIPs(t, p)
			addIPv6s(t, p)
			killed(t, p, c.driver, c.sides)
		})
	}
}

func killed(t *testing.T, p *vethtest.Pair, driver string, sides [3]int) {
	inVictimsNS := func(c *exec.Cmd) error { return p.In(0, c.Start) }
	victim := play(t, "hold", inVictimsNS, driverEnv+"="+driver)
	var to ethertype.Addr
	if line, err := victim.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	} else if to, err = ethertype.ParseAddr(line[:len(line)-1]); err != nil {
		t.Fatalf("the process said %q", line)
	}
	var peers [3]*peer
	for i, side := range sides {
		peers[i] = newPeer(t, openAt(t, p, side, driver, transport.PortRange{}), to)
	}
	for _, x := range peers {
		x.moves(t)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for i, x := range peers {
		x.told(t, sides[i] == 0)
	}
	victim.Wait() // now all its descriptors are closed
	again := openAt(t, p, 0, driver, heldPorts)
	for _, x := range peers {
		a, b := join(t, [2]*vipl.NIC{again, x.vi.NIC()}, nil)
		f := newFlow(t, a, b, 20, 10_000, 1)
		within(t, "a connection to the next process", func() error { return all(f.send, f.receive) })
	}
}

// openAt opens a NIC on a side of a veth.
func openAt(t *testing.T, p *vethtest.Pair, side int, driver string, ports transport.PortRange) *vipl.NIC {
	t.Helper()
	cfg := driverConfig(driver, side)
	cfg.Ports = ports
	return openConfig(t, p, side, cfg)
}

// peer exchanges messages with the role hold.
type peer struct {
	vi    *vipl.VI
	ended chan error
}

// peerSize is the length of the messages, peerAhead how many of them are under
// way.
const peerSize, peerAhead = 10_000, 4

func newPeer(t *testing.T, n *vipl.NIC, to ethertype.Addr) *peer {
	t.Helper()
	v, err := n.CreateVI(&vipl.Attributes{PeerTimeout: time.Second}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &peer{vi: v, ended: make(chan error, 1)}
	in, err := newBuffers(n, 2*peerAhead, peerSize)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	if err := v.Connect(ctx, to, nil); err != nil {
		t.Fatal(err)
	}
	go func() { x.ended <- x.exchange() }()
	return x
}

// exchange sends messages and takes the answers until the connection ends.
func (x *peer) exchange() error {
	out, err := newBuffers(x.vi.NIC(), peerAhead, peerSize)
	if err != nil {
		return err
	}
	for i := range out.descs {
		if err := x.vi.PostSend(&out.descs[i]); err != nil {
			return err
		}
	}
	for {
		d, err := x.vi.RecvWait(bg)
		if err == nil {
			err = x.vi.PostRecv(d)
		}
		if err != nil {
			return err
		}
		s, err := x.vi.SendWait(bg)
		if err == nil {
			err = x.vi.PostSend(s)
		}
		if err != nil {
			return err
		}
	}
}

// moves returns when some messages have been answered.
func (x *peer) moves(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); x.vi.Snapshot().Receives < 20; runtime.Gosched() {
		if x.vi.State() != vipl.StateConnected || time.Now().After(end) {
			t.Fatalf("no traffic: %v, %v", x.vi.State(), x.vi.Err())
		}
	}
}

// told wants the connection to end because the other process is gone; on its own
// host the link must have said so.
func (x *peer) told(t *testing.T, here bool) {
	t.Helper()
	within(t, "a peer of the killed process", func() error {
		err := <-x.ended
		var broken *vipl.ConnError
		if !errors.Is(err, vipl.ErrDescriptor) || !errors.As(x.vi.Err(), &broken) || !errors.Is(broken, vipl.ErrUnreachable) ||
			(broken.Detail == shm.ErrGone.Error()) != here {
			return fmt.Errorf("on its host: %t; ended with %w, VI: %w", here, err, x.vi.Err())
		}
		return nil
	})
}

// holdRole accepts connections and answers each message with another, until it
// is killed.
func holdRole() error {
	cfg := driverConfig(os.Getenv(driverEnv), 0)
	cfg.Ports = heldPorts
	n, err := vipl.Open(context.Background(), cfg)
	if err != nil {
		return err
	}
	l, err := n.Listen(0)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ends := make(chan error)
	for {
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		go func() { ends <- answerAll(n, r) }()
		select {
		case err := <-ends:
			return err
		default:
		}
	}
}

// answerAll serves one connection.
func answerAll(n *vipl.NIC, r *vipl.Request) error {
	v, err := n.CreateVI(nil, nil, nil)
	if err != nil {
		return err
	}
	in, err := newBuffers(n, 2*peerAhead, peerSize)
	if err != nil {
		return err
	}
	out, err := newBuffers(n, 2*peerAhead, peerSize)
	if err != nil {
		return err
	}
	for i := range in.descs {
		if err := v.PostRecv(&in.descs[i]); err != nil {
			return err
		}
	}
	if err := r.Accept(bg, v); err != nil {
		return err
	}
	for i := 0; ; i++ {
		d, err := v.RecvWait(bg)
		if err == nil {
			err = v.PostRecv(d)
		}
		if err == nil && i >= len(out.descs) {
			_, err = v.SendWait(bg)
		}
		if err == nil {
			err = v.PostSend(&out.descs[i%len(out.descs)])
		}
		if err != nil {
			return fmt.Errorf("connection to %v: %w (%v)", r.Remote(), err, v.Err())
		}
	}
}

// TestSlowServer: a server that looks at its NIC five times a second, and whose ring holds
// a few dozen frames, gets all of hundreds that ask at once, although that takes much
// longer than each may try alone. Those that ask later, when it is silent for good, fail
// in the time that they have.
func TestSlowServer(t *testing.T) {
	const clients, slots, step = 400, 64, 200 * time.Millisecond
	d := &duo{t: t}
	d.links[0], d.links[1] = memPairSlots(1500, slots)
	d.links[0].drops = true
	d.na, d.nb = d.open(0), d.open(1)
	l, err := d.na.Listen(service)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() *vipl.VI {
		v := d.idle(d.nb)
		if err := v.ConnectStart(l.Addr(), nil); err != nil {
			t.Fatal(err)
		}
		return v
	}
	vis := make([]*vipl.VI, clients)
	for i := range vis {
		vis[i] = ask()
	}
	if left := vis[clients-1].Snapshot().GivesUp; left <= 0 || left > vipl.DefaultConnectTimeout {
		t.Errorf("an attempt that waits for its turn gives up in %v", left)
	}
	began := d.nb.Now()
	for countConnected(vis) < clients {
		d.clientsFor(step)
		d.serve(l)
		if took := time.Duration(d.nb.Now() - began); took > 5*time.Minute {
			t.Fatalf("%d of %d are connected after %v: %v", countConnected(vis), clients, took, vis[clients-1].ConnectDone())
		}
	}
	if took := time.Duration(d.nb.Now() - began); took < 2*vipl.DefaultConnectTimeout {
		t.Fatalf("the server took %v only", took)
	}
	for i := range vis {
		vis[i] = ask()
	}
	for range 4 { // the time that they wait in vain counts
		d.clientsFor(vipl.DefaultConnectTimeout)
	}
	for _, v := range vis {
		if err := v.ConnectDone(); !errors.Is(err, vipl.ErrTimeout) {
			t.Fatalf("asking who is silent: %v, want a time-out", err)
		}
	}
}

// serve takes what has come to side a, and accepts all requests.
func (d *duo) serve(l *vipl.Listener) {
	for range 4 {
		d.na.Poll()
	}
	for {
		r, err := l.Poll()
		if errors.Is(err, vipl.ErrNotDone) {
			return
		} else if err != nil {
			d.t.Fatal(err)
		}
		if err := r.AcceptStart(d.idle(d.na)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// clientsFor drives side b alone for some time.
func (d *duo) clientsFor(t time.Duration) {
	clock := d.links[1].clock
	for end := *clock + int64(t); *clock < end; *clock += int64(time.Millisecond) {
		d.nb.Poll()
	}
}

func countConnected(vis []*vipl.VI) (n int) {
	for _, v := range vis {
		if v.ConnectDone() == nil {
			n++
		}
	}
	return n
}
