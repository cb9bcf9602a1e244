package vipl_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLostDisconnect: a side finds an error of the peer's, its word of that is
// lost, and its program leaves at once. The peer learns the cause all the same,
// and its send has the status that tells it.
func TestLostDisconnect(t *testing.T) {
	causes := []struct {
		name   string
		err    error
		status vipl.Status
		begin  func(d *duo) *vipl.Descriptor // makes b's error
	}{
		{"TooLong", vipl.ErrTooLong, vipl.StatusRemoteDescError, func(d *duo) *vipl.Descriptor {
			d.post(d.a, 16)
			return d.send(d.b, 100)
		}},
		{"NoReceive", vipl.ErrRecvQueue, vipl.StatusRemoteDescError, func(d *duo) *vipl.Descriptor { return d.send(d.b, 100) }},
		{"RDMA", vipl.ErrRDMA, vipl.StatusOpRDMAWrite | vipl.StatusRDMAProtError, func(d *duo) *vipl.Descriptor {
			return d.write(d.b, 100, 4096, 77, false)
		}},
	}
	leave := map[string]func(v *vipl.VI) error{"Disconnect": (*vipl.VI).Disconnect, "Close": (*vipl.VI).Close}
	for _, c := range causes {
		for name, end := range leave {
			t.Run(fmt.Sprint(c.name, "/", name), func(t *testing.T) {
				attr := &vipl.Attributes{Reliability: reliability.ReliableReception, EnableRDMAWrite: true}
				d := newDuo(t, attr, attr)
				s := c.begin(d)
				wire := d.links[1] // to b
				sent := wire.tail
				d.na.Poll()
				if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), c.err) || wire.tail == sent {
					t.Fatalf("%v, %v, %d frames: want it to find %v and say so", d.a.State(), d.a.Err(), wire.tail-sent, c.err)
				}
				wire.tail = sent // lost
				if err := end(d.a); err != nil {
					t.Fatal(err)
				}
				wire.tail = sent // whatever it says in leaving, too
				for i := 0; d.b.State() == vipl.StateConnected && i < 100; i++ {
					d.run()
				}
				if !errors.Is(d.b.Err(), c.err) {
					t.Errorf("the peer learns %v, want %v", d.b.Err(), c.err)
				}
				got, err := d.b.SendDone()
				d.took(got, err, s, c.status)
			})
		}
	}
}

// TestTimeWaitIsKept: connections that peers have ended do not displace the
// memory of one that this side has left, whose peer has not heard.
func TestTimeWaitIsKept(t *testing.T) {
	d := newDuo(t, nil, nil)
	left, unaware := d.a, d.b
	wire := d.links[1] // to b
	sent := wire.tail
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	wire.tail = sent // lost
	for range 70 {   // more than are remembered
		d.a, d.b = d.idle(d.na), d.idle(d.nb)
		d.connect()
		d.b.Close()
		d.na.Poll()
		if d.a.State() != vipl.StateError {
			t.Fatalf("%v, want it to have heard that its peer has left", d.a.State())
		}
		d.a.Close()
	}
	if unaware.State() != vipl.StateConnected {
		t.Fatalf("%v, %v: the test tests nothing", unaware.State(), unaware.Err())
	}
	d.send(unaware, 10)
	d.run()
	var ended *vipl.ConnError
	if !errors.As(unaware.Err(), &ended) || ended.Err != vipl.ErrDisconnected || ended.Detail != "the peer says so" {
		t.Errorf("%v, want it to hear of the end", unaware.Err())
	}
}

// idle returns a new VI of n.
func (d *duo) idle(n *vipl.NIC) *vipl.VI {
	d.t.Helper()
	v, err := n.CreateVI(nil, nil, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// TestClosedSaysNothing: over a link that somebody has closed under the NIC, but that
// carries frames still, as while it closes, the NIC tells nobody that the peer is
// silent: the peer is not, and will learn from who answers in its place.
func TestClosedSaysNothing(t *testing.T) {
	d := newDuo(t, nil, nil)
	d.links[0].dead = true
	d.na.Poll()
	if d.a.State() != vipl.StateError || !errors.Is(d.a.Err(), vipl.ErrLink) {
		t.Fatalf("%v, %v: want it to end with the link", d.a.State(), d.a.Err())
	}
	d.links[0].dead = false
	d.send(d.b, 100)
	said := d.links[0].frames
	d.na.Poll()
	d.nb.Poll()
	if d.b.State() != vipl.StateConnected || d.links[0].frames != said {
		t.Errorf("the peer is %v (%v), after %d frames", d.b.State(), d.b.Err(), d.links[0].frames-said)
	}
}
