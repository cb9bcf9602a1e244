package vipl_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
)

// TestUDPAddressLost takes either side's IP address away under traffic. It goes
// on when the address is there again; if that takes longer than peers wait, the
// connection ends with an error that says which address it is.
func TestUDPAddressLost(t *testing.T) {
	for side, addr := range []string{"10.9.0.1", "10.9.0.2"} {
		t.Run(addr, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			addIPs(t, p)
			nics := [2]*vipl.NIC{openOn(t, p, 0, "udp"), openOn(t, p, 1, "udp")}
			s := startStream(t, nics, patient)
			changeIP(t, p, side, addr, netlink.AddrDel)
			changeIP(t, p, side, addr, netlink.AddrAdd)
			s.flows(t)
			s = startStream(t, nics, &vipl.Attributes{PeerTimeout: time.Second})
			changeIP(t, p, side, addr, netlink.AddrDel)
			within(t, "the end", func() error {
				for _, err := range []error{<-s.sent, <-s.received} {
					if !errors.Is(err, vipl.ErrDescriptor) {
						return err
					}
				}
				return nil
			})
			err := [2]*vipl.VI{s.a, s.b}[side].Err()
			if !errors.Is(err, vipl.ErrUnreachable) || !strings.Contains(err.Error(), "lost the address "+addr) {
				t.Errorf("the connection ended with: %v", err)
			}
		})
	}
}

// changeIP changes an address of the interface of a side.
func changeIP(t *testing.T, p *vethtest.Pair, side int, ip string, change func(netlink.Link, *netlink.Addr) error) {
	t.Helper()
	err := p.In(side, func() error {
		link, err := netlink.LinkByName(vethtest.Name)
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(ip + "/24")
		if err != nil {
			return err
		}
		return change(link, addr)
	})
	if err != nil {
		t.Fatal(err)
	}
}
