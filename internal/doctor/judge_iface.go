package doctor

import (
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/vipl"
)

// judgeInterface looks at the choice, the state and the MTU.
func judgeInterface(f *Facts) []Finding {
	in := &f.Interfaces
	choice := Finding{Check: "interface", Found: "none"}
	if in.Err != nil {
		choice.Level, choice.Found, choice.Fix = Fail, in.Err.Error(), chooseFix(f)
		choice.Means = "no NIC can be opened without saying more, or at all"
		return append([]Finding{choice}, judgeFaults(f)...)
	}
	if in.Chosen == (iface.Interface{}) {
		choice.Found, choice.Means = "none: "+in.Why, "only programs of this host are reached"
		return append(append([]Finding{choice}, judgeFaults(f)...), judgeNIC(f))
	}
	choice.Found = fmt.Sprintf("%v: %s", in.Chosen, in.Why)
	for _, other := range in.List {
		if other.Index != in.Chosen.Index {
			choice.Found += fmt.Sprintf("\nnot %v", other)
		}
	}
	all := []Finding{choice}
	if in.Chosen.State != iface.Up {
		all = append(all, Finding{Level: Fail, Check: "carrier", Found: fmt.Sprintf("%s: %s", in.Chosen.Name, in.Chosen.State),
			Means: "nothing answers at the other end of the wire: the cable, the switch's port, or, of a veth, the other end is off",
			Fix:   fmt.Sprintf("sudo ip link set dev %s down && sudo ip link set dev %s up", in.Chosen.Name, in.Chosen.Name)})
	}
	if in.Chosen.Macvlan != "" {
		all = append(all, Finding{Level: Note, Check: "macvlan", Found: in.Chosen.Name, Means: in.Chosen.Macvlan,
			Fix: "ip -details link show type macvlan   # shows which there are"})
	}
	all = append(all, judgeMTU(f))
	all = append(all, judgeFaults(f)...)
	if f.NIC.Tried {
		all = append(all, judgeNIC(f))
	}
	return all
}

// chooseFix returns a command for the case that no interface was chosen.
func chooseFix(f *Facts) string {
	list := f.Interfaces.List
	var up, named []iface.Interface
	mac, macErr := ethertype.ParseMAC(f.Interfaces.Want)
	for _, i := range list {
		if i.State == iface.Up && i.Bridge == "" {
			up = append(up, i)
		}
		if i.Name == f.Interfaces.Want || macErr == nil && i.MAC == mac {
			named = append(named, i)
		}
	}
	switch {
	case len(named) == 1 && named[0].State == iface.Down:
		return fmt.Sprintf("sudo ip link set dev %s up", named[0].Name)
	case len(named) == 1 && named[0].Bridge != "":
		return f.Program + " doctor -i " + named[0].Bridge
	case len(named) == 1:
		return setMTU(named[0].Name, min(max(named[0].MTU, etherMTU), ethertype.MaxMTU))
	case len(up) == 1:
		return mtuOr(up[0], f.Program+" doctor -i "+up[0].Name)
	case len(up) > 1:
		return f.Program + " doctor -i " + up[0].Name
	}
	for _, i := range list {
		if i.State == iface.Down && i.Bridge == "" {
			return fmt.Sprintf("sudo ip link set dev %s up", i.Name)
		}
	}
	if len(list) > 0 {
		return lookAt(list[0].Name)
	}
	return "ip link   # shows interfaces of every kind\n" + f.Program + " lab -n 1 -- " + f.Program + " doctor   # in a namespace with an Ethernet interface of its own"
}

// lookAt returns the command for what no command is known to change.
func lookAt(name string) string {
	if name == "" {
		return "ss --listening --unix --processes   # shows who has the names of driver shm"
	}
	return "ip -s link show dev " + name + "   # shows its state and what it has lost"
}

// mtuOr returns the command that makes i usable if its MTU is what is wrong.
func mtuOr(i iface.Interface, otherwise string) string {
	if i.MTU < ethertype.MinMTU || i.MTU > ethertype.MaxMTU {
		return setMTU(i.Name, min(max(i.MTU, etherMTU), ethertype.MaxMTU))
	}
	return otherwise
}

// The usual MTUs of Ethernet, in bytes.
const (
	etherMTU = 1500
	jumboMTU = 9000
)

func setMTU(name string, mtu int) string {
	return fmt.Sprintf("sudo ip link set dev %s mtu %d", name, mtu)
}

func judgeMTU(f *Facts) Finding {
	i := f.Interfaces.Chosen
	found := Finding{Check: "MTU", Found: fmt.Sprintf("%d bytes", i.MTU)}
	switch {
	case i.MTU < vipl.MinMTU:
		found.Level, found.Fix = Fail, setMTU(i.Name, etherMTU)
		found.Means = fmt.Sprintf("a NIC needs at least %d", vipl.MinMTU)
	case i.MTU < etherMTU:
		found.Level, found.Fix = Warn, setMTU(i.Name, etherMTU)
		found.Means = "less than every Ethernet carries: long messages take more frames than they need"
	case i.MTU < jumboMTU && f.Interfaces.Driver.Name != "veth":
		found.Level, found.Fix = Note, setMTU(i.Name, jumboMTU)
		found.Means = "long messages are faster in jumbo frames, if the card, the switch and every station are set to them"
	}
	return found
}

// judgeCard looks at what the card's driver does to frames. The offloads of
// segmentation and merging concern TCP and UDP; frames of another EtherType
// pass by them as they are, whatever their state.
func judgeCard(f *Facts) []Finding {
	d := &f.Interfaces.Driver
	if f.Interfaces.Err != nil || f.Interfaces.Chosen == (iface.Interface{}) {
		return nil
	}
	name := f.Interfaces.Chosen.Name
	var all []Finding
	if f.Driver == "udp" { // frames of another EtherType pass by these offloads
		all = append(all, judgeOffloads(d, name))
	}
	if d.Coalesces {
		all = append(all, judgeCoalescing(d, name))
	}
	if d.RxRing > 0 && d.RxRing < 512 && d.RxRing < d.RxRingMax {
		all = append(all, Finding{Level: Note, Check: "card's queue", Found: fmt.Sprintf("%d frames of %d", d.RxRing, d.RxRingMax),
			Means: "bursts of many senders overflow it, and frames are sent again",
			Fix:   fmt.Sprintf("sudo ethtool -G %s rx %d", name, min(4096, d.RxRingMax))})
	}
	return all
}

func judgeOffloads(d *Driver, name string) Finding {
	if d.Err != nil {
		return Finding{Check: "offloads", Found: fmt.Sprintf("the driver does not say: %v", d.Err), Means: "whether datagrams are merged as they come is not known"}
	}
	found := Finding{Check: "offloads", Found: fmt.Sprintf("%s: GRO %s, UDP segmentation %s", d.Name, onOff(d.GRO), onOff(d.UDPSegments))}
	if !d.GRO {
		found.Level, found.Fix = Note, "sudo ethtool -K "+name+" gro on"
		found.Means = "datagrams are taken one by one"
	}
	return found
}

// coalesceMicros is how long an interrupt may be held back without a word: a
// few times the way of a message.
const coalesceMicros = 8

func judgeCoalescing(d *Driver, name string) Finding {
	found := Finding{Check: "interrupts", Found: fmt.Sprintf("held back for up to %d us", d.CoalesceMicros)}
	if d.AdaptiveRx {
		found.Found += ", adaptively"
	}
	if d.CoalesceMicros > coalesceMicros || d.AdaptiveRx {
		found.Level, found.Means = Note, "that much is added to the time of a message, since frames reach the ring after the interrupt"
		found.Fix = "sudo ethtool -C " + name + " adaptive-rx off rx-usecs 0"
	}
	return found
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
