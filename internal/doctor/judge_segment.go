package doctor

import (
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
)

// judgeSegment looks at the peers that have answered.
func judgeSegment(f *Facts) []Finding {
	if !f.NIC.Tried || f.NIC.Err != nil {
		return nil
	}
	if f.Segment.Err != nil {
		return []Finding{{Level: Fail, Check: "segment", Found: f.Segment.Err.Error(),
			Means: "nobody could be asked", Fix: lookAt(f.Interfaces.Chosen.Name)}}
	}
	if len(f.Segment.Peers) == 0 {
		return []Finding{{Level: Note, Check: "segment", Found: "no other Bobnet program answers",
			Means: "none is running, or switch, filter or EtherType keep frames apart; start one on another machine and look again",
			Fix:   "bobnet ping --listen"}}
	}
	var all []Finding
	for i := range f.Segment.Peers {
		all = append(all, judgePeer(f, &f.Segment.Peers[i]))
	}
	return all
}

func judgePeer(f *Facts, p *Peer) Finding {
	name, here := f.Interfaces.Chosen.Name, f.NIC.MTU
	found := Finding{Check: "peer", Found: fmt.Sprintf("%v %s, MTU %d: %v", p.Addr, p.Host, p.MTU, micros(p.Small))}
	switch {
	case p.Gone:
		found.Level, found.Found = Note, fmt.Sprintf("%v %s: is gone", p.Addr, p.Host)
		found.Means = "it answered at first, and then neither alone nor with all others: its program has ended meanwhile"
		found.Fix = f.Program + " doctor   # looks again"
	case p.SmallErr != nil:
		found.Level, found.Found = Fail, fmt.Sprintf("%v %s: %v", p.Addr, p.Host, p.SmallErr)
		found.Means = "it answers broadcasts and not what is sent to it alone: a switch or a filter knows its MAC elsewhere, or two stations have the same"
		found.Fix = fmt.Sprintf("bridge fdb show | grep -i %v   # where the bridge is: shows behind which PORT it takes it to be", p.Addr.MAC) +
			fmt.Sprintf("\nsudo bridge fdb del %v dev PORT master   # if that is wrong", p.Addr.MAC)
	case p.FullErr != nil:
		found.Level = Fail
		found.Found = fmt.Sprintf("%v %s, MTU %d: short frames %v, full ones (%d bytes) do not come back", p.Addr, p.Host, p.MTU, micros(p.Small), p.FullBytes)
		found.Means = "something between the two carries less than both interfaces say: connections fail with ErrInvalidMTU"
		found.Fix = f.Program + " doctor   # looks again: what the path carries was not found out"
		if p.Carries > 0 {
			found.Found += fmt.Sprintf("; the path carries an MTU of %d", p.Carries)
			found.Fix = setMTU(name, p.Carries) + "   # here and at every station; or raise that of what is between"
		}
		if p.Carries > 0 && p.Carries < vipl.MinMTU {
			found.Means = fmt.Sprintf("something between the two carries less than a NIC needs (%d bytes): raise its MTU", vipl.MinMTU)
			found.Fix = ShowLinks
		}
	case p.MTU < here:
		found.Level = Note
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
		found.Means = fmt.Sprintf("connections use its MTU, %d, not this side's %d", p.MTU, here)
		found.Fix = fmt.Sprintf("sudo ip link set dev IFACE mtu %d   # at %s", here, orAddr(p))
	case p.MTU > here:
		found.Level = Note
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
		found.Means = fmt.Sprintf("connections use this side's MTU, %d, not its %d", here, p.MTU)
		found.Fix = setMTU(name, p.MTU)
	default:
		found.Found += fmt.Sprintf(", full frames %v", micros(p.Full))
	}
	return found
}

// ShowLinks is the command that shows which interface of a switch or bridge on Linux has a small MTU.
const ShowLinks = "ip link   # on the switch or bridge between: shows the MTU of each interface"

// orAddr names the peer's machine.
func orAddr(p *Peer) string {
	if p.Host != "" {
		return p.Host
	}
	return p.Addr.MAC.String()
}

// micros prints a round trip.
func micros(d time.Duration) string { return fmt.Sprintf("%.1f us", float64(d)/1e3) }
