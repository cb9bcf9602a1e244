package vipl_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// set sets a parameter of the calling thread's network namespace.
func set(name, value string) error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0o644) }

// bridgeRules makes the bridge pass IPv6 packets to a chain of the hook forward with a policy and rules.
func bridgeRules(p *vethtest.Pair, policy nftables.ChainPolicy, rules ...[]expr.Any) error {
	return p.InBridge(func() error {
		if err := set("bridge/bridge-nf-call-ip6tables", "1"); err != nil {
			return err
		}
		var conn nftables.Conn
		table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv6, Name: "t"})
		chain := conn.AddChain(&nftables.Chain{Table: table, Name: "c", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &policy})
		for _, rule := range rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule})
		}
		if err := conn.Flush(); err != nil {
			return errors.Join(os.ErrNotExist, err) // the kernel lacks them
		}
		return nil
	})
}

// noRules removes what bridgeRules has made.
func noRules(p *vethtest.Pair) error {
	return p.InBridge(func() error {
		var conn nftables.Conn
		conn.DelTable(&nftables.Table{Family: nftables.TableFamilyIPv6, Name: "t"})
		return conn.Flush()
	})
}

// tracked matches packets of a state of connection tracking, and has the kernel track connections.
func tracked(state uint32, verdict expr.VerdictKind) []expr.Any {
	mask := make([]byte, 4)
	mask[0] = byte(state)
	return []expr.Any{&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)}, &expr.Verdict{Kind: verdict}}
}

// filterVLANs makes the bridge judge VLANs, and carry one with tags on both ports.
func filterVLANs(p *vethtest.Pair, id uint16) error {
	return p.InBridge(func() error {
		hub, err := netlink.LinkByName("hub")
		if err != nil {
			return err
		}
		if err := netlink.BridgeSetVlanFiltering(hub, true); err != nil {
			return errors.Join(os.ErrNotExist, err) // the kernel lacks it
		}
		for _, name := range vethtest.Ports() {
			port, failed := netlink.LinkByName(name)
			if failed == nil {
				failed = netlink.BridgeVlanAdd(port, id, false, false, false, true)
			}
			err = errors.Join(err, failed)
		}
		return err
	})
}

// addVLAN makes an interface of a VLAN on both sides.
func addVLAN(p *vethtest.Pair, name string, id int) (err error) {
	for side := range 2 {
		err = errors.Join(err, p.In(side, func() error {
			return addAbove(name, func(attrs netlink.LinkAttrs) netlink.Link {
				return &netlink.Vlan{LinkAttrs: attrs, VlanId: id}
			})
		}))
	}
	return err
}

// addMacvlan makes an interface with a MAC of its own on the interface of both sides.
func addMacvlan(p *vethtest.Pair, name string) (err error) {
	for side := range 2 {
		err = errors.Join(err, p.In(side, func() error {
			return addAbove(name, func(attrs netlink.LinkAttrs) netlink.Link {
				attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 1, byte(side)}
				return &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
			})
		}))
	}
	return err
}

// addAbove makes an interface above that of the pair in the calling thread's namespace.
func addAbove(name string, link func(attrs netlink.LinkAttrs) netlink.Link) error {
	below, err := netlink.LinkByName(vethtest.Name)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = name, below.Attrs().Index
	above := link(attrs)
	if err := netlink.LinkAdd(above); errors.Is(err, unix.EOPNOTSUPP) {
		return errors.Join(os.ErrNotExist, err) // the kernel lacks it
	} else if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(above); err != nil {
		return err
	}
	handle, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	return vethtest.Carrier(handle, name)
}

// addBridge puts a second bridge into the path: between the first one and side 1.
func addBridge(p *vethtest.Pair) error {
	return p.InBridge(func() error {
		first, err := netlink.LinkByName("hub")
		if err != nil {
			return err
		}
		attrs, snooping := netlink.NewLinkAttrs(), false
		attrs.Name = "hub2"
		second := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		attrs = netlink.NewLinkAttrs()
		attrs.Name = "to2"
		if err := errors.Join(netlink.LinkAdd(second), netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "to1"})); err != nil {
			return err
		}
		for name, master := range map[string]netlink.Link{"to2": first, "to1": second, vethtest.Ports()[1]: second} {
			port, err := netlink.LinkByName(name)
			if err == nil {
				err = errors.Join(netlink.LinkSetMaster(port, master), netlink.LinkSetUp(port))
			}
			if err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(second)
	})
}

// removeBridge takes the second bridge out of the path.
func removeBridge(p *vethtest.Pair) error {
	return p.InBridge(func() error {
		first, err := netlink.LinkByName("hub")
		if err != nil {
			return err
		}
		port, err := netlink.LinkByName(vethtest.Ports()[1])
		if err != nil {
			return err
		}
		err = netlink.LinkSetMaster(port, first)
		for _, name := range []string{"hub2", "to2"} {
			link, failed := netlink.LinkByName(name)
			if failed == nil {
				failed = netlink.LinkDel(link)
			}
			err = errors.Join(err, failed)
		}
		return err
	})
}

// onVLAN makes a bridge that filters VLANs, and an interface of one on both sides.
func onVLAN(p *vethtest.Pair) error {
	return errors.Join(filterVLANs(p, 5), addVLAN(p, "vlan5", 5))
}

// blockVLAN makes the bridge drop the IPv6 packets of VLANs.
func blockVLAN(p *vethtest.Pair) error {
	set := func() error { return set("bridge/bridge-nf-filter-vlan-tagged", "1") }
	return errors.Join(p.InBridge(set), bridgeRules(p, drop))
}

// replaceBridge removes the bridge from the path, has f run, and puts another one there.
func replaceBridge(p *vethtest.Pair, f func()) error {
	return p.InBridge(func() error {
		hub, err := netlink.LinkByName("hub")
		if err == nil {
			err = netlink.LinkDel(hub)
		}
		if err != nil {
			return err
		}
		f()
		attrs, snooping := netlink.NewLinkAttrs(), false
		attrs.Name = "hub"
		other := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
		if err := netlink.LinkAdd(other); err != nil {
			return err
		}
		for _, name := range vethtest.Ports() {
			port, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetMaster(port, other)
			}
			if err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(other)
	})
}

// hostile is a network that may not carry long frames.
type hostile struct {
	name    string
	device  string                       // of both sides; "" for that of the pair
	prepare func(p *vethtest.Pair) error // before NICs are opened
	carries bool                         // it carries long frames then
	change  func(p *vethtest.Pair) error // while a stream runs; nil for nothing
	after   bool                         // it carries long frames then,
	cut     bool                         // in segments
	mixed   bool                         // or whole, as the host joins them
	back    func(p *vethtest.Pair) error // so that it carries long frames again; nil for nothing
}

const (
	stateInvalid = 1 // NF_CT_STATE_INVALID_BIT
	accept, drop = nftables.ChainPolicyAccept, nftables.ChainPolicyDrop
)

var hostiles = []hostile{
	{name: "Calls", prepare: func(p *vethtest.Pair) error { return bridgeRules(p, accept) }, carries: true,
		change: func(p *vethtest.Pair) error { return errors.Join(noRules(p), bridgeRules(p, drop)) }, back: noRules},
	{name: "PolicyDrop", prepare: func(p *vethtest.Pair) error { return bridgeRules(p, drop) },
		change: noRules, after: true},
	{name: "Tracked", prepare: func(p *vethtest.Pair) error { return bridgeRules(p, accept, tracked(0xff, expr.VerdictAccept)) }, carries: true},
	{name: "TrackedInvalid", prepare: func(p *vethtest.Pair) error { return bridgeRules(p, accept, tracked(stateInvalid, expr.VerdictDrop)) }, carries: true},
	{name: "VLANFiltering", prepare: func(p *vethtest.Pair) error { return filterVLANs(p, 5) }, carries: true},
	{name: "VLAN", device: "vlan5", prepare: func(p *vethtest.Pair) error { return addVLAN(p, "vlan5", 5) }, carries: true,
		change: func(p *vethtest.Pair) error { return p.SetOffloads(0, false) }, after: true, cut: true,
		back: func(p *vethtest.Pair) error { return p.SetOffloads(0, true) }},
	{name: "VLANInterface", device: "vlan5", prepare: onVLAN, carries: true},
	{name: "VLANDrop", device: "vlan5", prepare: onVLAN, carries: true, change: blockVLAN, back: noRules},
	{name: "Macvlan", device: "mac0", prepare: func(p *vethtest.Pair) error { return addMacvlan(p, "mac0") }, carries: true,
		change: func(p *vethtest.Pair) error { return p.SetOffloads(0, false) }, after: true, cut: true,
		back: func(p *vethtest.Pair) error { return p.SetOffloads(0, true) }},
	{name: "MacvlanDrop", device: "mac0", prepare: func(p *vethtest.Pair) error { return addMacvlan(p, "mac0") }, carries: true,
		change: func(p *vethtest.Pair) error { return bridgeRules(p, drop) }, back: noRules},
	{name: "IPv6Disabled", prepare: func(p *vethtest.Pair) error {
		disable := func() error { return set("ipv6/conf/all/disable_ipv6", "1") }
		return errors.Join(p.In(0, disable), p.In(1, disable), p.InBridge(disable))
	}, carries: true},
	{name: "Offloads", carries: true, change: func(p *vethtest.Pair) error { return p.SetOffloads(0, false) }, after: true, cut: true,
		back: func(p *vethtest.Pair) error { return p.SetOffloads(0, true) }},
	{name: "Card", prepare: func(p *vethtest.Pair) error { return errors.Join(p.SetCard(0, true), p.SetCard(1, false)) }, carries: true,
		change: func(p *vethtest.Pair) error { return p.SetCard(1, true) }, after: true, mixed: true},
	{name: "MTU", carries: true, change: func(p *vethtest.Pair) error { return errors.Join(p.SetBetween(0, 9000), p.SetBetween(1, 1500)) }, after: true},
	{name: "SecondBridge", carries: true, change: addBridge, after: true, back: removeBridge},
	{name: "OtherBridge", carries: true, change: func(p *vethtest.Pair) error { return replaceBridge(p, func() {}) }, after: true},
}

// TestLongNetworks: streams go on across networks that may not carry long frames. They use long frames where the network carries them, soon
// after it begins to, and no more soon after it has stopped to. The counters tell.
func TestLongNetworks(t *testing.T) {
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			p := vethtest.NewBridged(t, 1500, 1500)
			if h.prepare != nil {
				if err := h.prepare(p); errors.Is(err, os.ErrNotExist) {
					t.Skipf("this kernel lacks br_netfilter, nftables, VLANs, or filters for them: %v", err)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			device := vethtest.Name
			if h.device != "" {
				device = h.device
			}
			var nics [2]*vipl.NIC
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: device})
			}
			s := startStream(t, nics, nil)
			stops := uint64(0)
			until := func(what string, f func(p *vethtest.Pair) error, wide bool) {
				t.Helper()
				before := s.a.Wide()
				if f != nil {
					if err := f(p); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				s.becomes(t, what, wide)
				if before && !wide {
					stops++
				}
				if v := s.a.Snapshot(); v.LongStops != stops || v.LongAsks == 0 {
					t.Errorf("%s: counted %d stops, want %d; it has asked %d times", what, v.LongStops, stops, v.LongAsks)
				}
			}
			until("at first", nil, h.carries)
			if h.change != nil {
				until("changed", h.change, h.after)
			}
			if !h.mixed {
				s.becomesCut(t, h.cut)
			}
			if h.back != nil {
				until("changed back", h.back, true)
				s.becomesCut(t, false)
			}
		})
	}
}

// becomesCut wants the stream's sender to learn within some seconds that the path cuts long frames, or does not.
func (s *stream) becomesCut(t *testing.T, cut bool) {
	t.Helper()
	const patience = 10 * time.Second
	for start := s.a.NIC().Now(); (s.a.Snapshot().LongCut > 0) != cut; s.flows(t) {
		if s.a.NIC().Now() > start+int64(patience) {
			t.Fatalf("after %v the path cuts long frames: %v", patience, !cut)
		}
	}
}

// becomes wants a stream to use long frames, or not to, within some seconds, and to go on so.
func (s *stream) becomes(t *testing.T, what string, wide bool) {
	t.Helper()
	const patience = 10 * time.Second
	start := s.a.NIC().Now()
	for s.a.Wide() != wide {
		if s.flows(t); s.a.NIC().Now() > start+int64(patience) {
			t.Fatalf("%s: after %v it uses long frames: %v; %+v", what, patience, s.a.Wide(), s.a.Snapshot().VIStats)
		}
	}
	s.flowsFor(t, 100*time.Millisecond)
	if s.a.Wide() != wide {
		t.Errorf("%s: it uses long frames: %v, and then no more", what, wide)
	}
}
