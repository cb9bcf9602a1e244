package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

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
