package doctor

import (
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/vishvananda/netlink"
)

// countTraffic returns what a NIC and its interface have counted so far. Without an interface, or
// its counters, it returns zero.
func countTraffic(nic *vipl.NIC) Traffic {
	link := seam.Link(nic)
	at, err := netlink.LinkByName(link.Info().Interface)
	if err != nil || at.Attrs().Statistics == nil {
		return Traffic{}
	}
	s := at.Attrs().Statistics
	sent := link.Stats() // a frame that is dropped as it leaves may be an error of the call, and is not counted as sent then
	return Traffic{Sent: max(sent.TxFrames, sent.TxCalls), Left: s.TxPackets, Came: s.RxPackets, TxDropped: s.TxDropped, RxDropped: s.RxDropped}
}

// since returns what was counted after before.
func (t Traffic) since(before Traffic) Traffic {
	return Traffic{Sent: t.Sent - before.Sent, Left: t.Left - before.Left, Came: t.Came - before.Came,
		TxDropped: t.TxDropped - before.TxDropped, RxDropped: t.RxDropped - before.RxDropped}
}
