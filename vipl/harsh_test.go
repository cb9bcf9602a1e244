package vipl_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/internal/viplinks"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHarshLinks connects and moves messages both ways, on either reliable level,
// over each link while it loses or corrupts 30 % of the frames, or doubles and
// reorders them.
func TestHarshLinks(t *testing.T) {
	eachLink(t, func(t *testing.T, name string, open opener) {
		t.Parallel()
		for what, o := range map[string]fault.Options{
			"loss":       {Drop: 0.3},
			"corruption": {Corrupt: 0.3},
			"disorder":   {Dup: 0.2, Reorder: 0.3, ReorderBy: 64},
		} {
			nics := open.nics(t, vipl.Config{}, faulty(o))
			for i, level := range reliableLevels {
				a, b := join(t, nics, &vipl.Attributes{Reliability: level})
				there, back := newFlow(t, a, b, 10, 20_000, 1), newFlow(t, b, a, 10, 20_000, 2)
				within(t, fmt.Sprint(what, ", connection ", i), func() error {
					return all(there.send, there.receive, back.send, back.receive)
				})
				if err := errors.Join(a.Close(), b.Close()); err != nil {
					t.Error(err)
				}
			}
			if s := nics[0].Snapshot().Link; s.Faults == 0 {
				t.Errorf("%s: there were no faults: %+v", what, s)
			}
		}
	})
}

// TestReborn: a NIC goes without a word in the midst of traffic, and another one
// takes its ports at once. Its peer, which has sent or has received, is told by
// that one's answer, long before it would give up a silent peer, and on one host
// by the link; a new connection works.
func TestReborn(t *testing.T) {
	for _, driver := range append([]string{"shm", viplinks.XDP, viplinks.UDP6}, drivers...) {
		for _, role := range []string{"sender", "receiver"} { // the survivor's
			t.Run(driver+"/"+role, func(t *testing.T) {
				t.Parallel()
				p := vethtest.NewWithQueues(t, 1500, 4)
				addIPs(t, p)
				addIPv6s(t, p)
				side, want := 1, vipl.ErrPeerReset
				if driver == "shm" {
					side, want = 0, vipl.ErrUnreachable
				}
				victim := openAt(t, p, 0, driver, heldPorts)
				n := openAt(t, p, side, driver, transport.PortRange{})
				nics := [2]*vipl.NIC{n, victim}
				if role == "receiver" {
					nics = [2]*vipl.NIC{victim, n}
				}
				s := startStream(t, nics, &vipl.Attributes{PeerTimeout: 5 * time.Second, Reliability: reliability.ReliableDelivery})
				seam.Link(victim).Close()
				nics = [2]*vipl.NIC{openAt(t, p, 0, driver, heldPorts), n}
				v, ended := s.a, s.sent
				if role == "receiver" {
					v, ended = s.b, s.received
				}
				within(t, "the survivor", func() error {
					if err := <-ended; !errors.Is(err, vipl.ErrDescriptor) || !errors.Is(v.Err(), want) {
						return fmt.Errorf("%w, VI: %w, want %w", err, v.Err(), want)
					}
					return nil
				})
				startStream(t, nics, nil)
			})
		}
	}
}
