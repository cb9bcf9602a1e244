package doctor

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestCuts: askDriver finds the interface that cuts long frames, also below a macvlan and a VLAN.
func TestCuts(t *testing.T) {
	p := vethtest.New(t, 1500)
	kinds := map[string]func(attrs netlink.LinkAttrs) netlink.Link{
		vethtest.Name: nil,
		"mac0": func(attrs netlink.LinkAttrs) netlink.Link {
			return &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
		},
		"vlan0": func(attrs netlink.LinkAttrs) netlink.Link { return &netlink.Vlan{LinkAttrs: attrs, VlanId: 5} },
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if kind != nil {
				err := p.In(0, func() error {
					below, err := netlink.LinkByName(vethtest.Name)
					if err != nil {
						return err
					}
					attrs := netlink.NewLinkAttrs()
					attrs.Name, attrs.ParentIndex = name, below.Attrs().Index
					return netlink.LinkAdd(kind(attrs))
				})
				if errors.Is(err, unix.EOPNOTSUPP) {
					t.Skipf("this kernel lacks such interfaces: %v", err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for _, on := range []bool{true, false, true} {
				if err := p.SetOffloads(0, on); err != nil {
					t.Fatal(err)
				}
				var d Driver
				if err := p.In(0, func() error { d = askDriver(name); return d.Err }); err != nil {
					t.Fatal(err)
				}
				if d.Cuts.Card || (d.Cuts.By == "") != on || kind == nil && !on && d.Cuts.By != vethtest.Name {
					t.Errorf("offloads %v: long frames are cut: %+v", on, d.Cuts)
				}
			}
		})
	}
}
