package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestEtherTypes opens two pairs of NICs on one veth, with the same addresses
// and EtherTypes of their own: neither hears the other.
func TestEtherTypes(t *testing.T) {
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			var pairs [2][2]*vipl.NIC
			for i := range pairs {
				for side := range pairs[i] {
					cfg := vipl.Config{Interface: vethtest.Name, Driver: driver, EtherType: ethertype.Default,
						Ports: transport.PortRange{Lo: 3072, Hi: 4095}}
					if i == 1 {
						cfg.EtherType++
					}
					if driver == "udp" { // whose ports are those of UDP, whatever the EtherType
						cfg.Ports = transport.PortRange{}
					}
					err := p.In(side, func() (err error) { pairs[i][side], err = vipl.Open(t.Context(), &cfg); return err })
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { pairs[i][side].Close() })
				}
			}
			apart(t, pairs)
		})
	}
}

// apart wants each NIC to find its partner and to hear it alone, under traffic
// of both pairs.
func apart(t *testing.T, pairs [2][2]*vipl.NIC) {
	var moves []func() error
	for i, nics := range pairs {
		for side, n := range nics {
			other := nics[1-side].Addr()
			moves = append(moves, func() error {
				list, err := n.Discover(bg)
				if len(list) != 1 || list[0].Addr != other {
					t.Errorf("pair %d: %v found %v, want %v alone", i, n.Addr(), list, other)
				}
				return err
			})
		}
		a, b := join(t, nics, nil)
		f := newFlow(t, a, b, 50, 20_000, uint64(i))
		moves = append(moves, f.send, f.receive)
	}
	within(t, "an exchange", func() error { return all(moves...) })
	for i, nics := range pairs {
		for side, n := range nics {
			heard := n.Snapshot()
			if sent := nics[1-side].Snapshot().TxFrames; heard.RxFrames > sent || heard.RxFrames == 0 {
				t.Errorf("pair %d: side %d has heard %d frames of %d", i, side, heard.RxFrames, sent)
			}
			heard.Dropped[vipl.DropDuplicate] = 0 // on a busy machine the partner sends frames again
			heard.Dropped[vipl.DropStale] = 0     // and some of the handshake after its end
			heard.Dropped[vipl.DropUnknown] = 0   // and answers when nobody waits for them any more; others' would be too many above
			if heard.Dropped != (vipl.DropCounts{}) {
				t.Errorf("pair %d: side %d has dropped frames: %v", i, side, heard.Dropped)
			}
		}
	}
}
