package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// unlikes are attributes of two VIs that can be connected and differ in
// everything else, and what each is to tell the other.
func unlikes() (full, told [2]vipl.Attributes) {
	full[0] = vipl.Attributes{
		Reliability: 2, MaxTransferSize: 5000, QoS: 9, EnableRDMAWrite: true, ReadDepth: 3,
		QueueDepth: 5, PeerTimeout: time.Second,
	}
	full[1] = vipl.Attributes{
		Reliability: 2, MaxTransferSize: 5000, QoS: 9, EnableRDMARead: true, ReadDepth: 256, WholeCRC: true,
		QueueDepth: 6, PeerTimeout: 2 * time.Second,
	}
	told = full
	for i := range told {
		told[i].QueueDepth, told[i].PeerTimeout = 0, 0
	}
	return full, told
}

// remoteIs wants the peer of v to have told what.
func remoteIs(v *vipl.VI, when string, what vipl.Attributes) error {
	if a := v.RemoteAttributes(); a != what {
		return fmt.Errorf("%s: the peer has %+v, want %+v", when, a, what)
	}
	return nil
}

// TestRemoteAttributes wants the listener, whom it accepts, and who connects to
// learn the attributes of the other side's VI.
func TestRemoteAttributes(t *testing.T) {
	full, told := unlikes()
	err := serveOne(sim.Options{Seed: 1, Loss: 0.3}, &full[1],
		func(n *vipl.NIC, r *vipl.Request) error {
			if a := r.Attributes(); a != told[1] {
				return fmt.Errorf("the request tells %+v, want %+v", a, told[1])
			}
			v, err := n.CreateVI(&full[0], nil, nil)
			if err == nil {
				err = r.Accept(bg, v)
			}
			if err != nil {
				return err
			}
			driveFor(n, 5*time.Second)
			return remoteIs(v, "the server", told[1])
		},
		func(v *vipl.VI, server ethertype.Addr) error {
			if err := remoteIs(v, "before", vipl.Attributes{}); err != nil {
				return err
			}
			if err := v.Connect(bg, server, nil); err != nil {
				return err
			}
			if err := remoteIs(v, "the client", told[0]); err != nil {
				return err
			}
			v.Disconnect()
			if err := remoteIs(v, "afterwards", told[0]); err != nil {
				return err
			}
			server.Port++
			if err := v.Connect(bg, server, nil); !errors.Is(err, vipl.ErrNoMatch) {
				return err
			}
			return remoteIs(v, "after the next attempt", vipl.Attributes{})
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoteAttributesOfPeers is the same of peers, of which either answers.
func TestRemoteAttributesOfPeers(t *testing.T) {
	full, told := unlikes()
	for flip := range 2 {
		_, err := peers(sim.Options{Seed: 1, Loss: 0.3}, func(i int, n *vipl.NIC, other ethertype.Addr) error {
			mine := (i + flip) % 2
			v, err := n.CreateVI(&full[mine], nil, nil)
			if err == nil {
				err = v.ConnectPeer(bg, other, nil)
			}
			if err == nil {
				err = remoteIs(v, "a peer", told[1-mine])
			}
			driveFor(n, 2*time.Second)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
