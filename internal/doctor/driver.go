package doctor

import "github.com/safchain/ethtool"

// askDriver asks the driver of an interface what `ethtool -i`, -k, -c and -g
// show. What it does not know is left at zero.
func askDriver(name string) (d Driver) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return Driver{Err: err}
	}
	defer tool.Close()
	if d.Name, d.Err = tool.DriverName(name); d.Err != nil {
		return d
	}
	features, err := tool.Features(name)
	if err != nil {
		return Driver{Name: d.Name, Err: err}
	}
	d.GRO, d.UDPSegments = features["rx-gro"], features["tx-udp-segmentation"]
	if c, err := tool.GetCoalesce(name); err == nil {
		d.Coalesces, d.CoalesceMicros = true, int(max(c.RxCoalesceUsecs, c.RxCoalesceUsecsHigh))
		d.AdaptiveRx = c.UseAdaptiveRxCoalesce != 0
	}
	if r, err := tool.GetRing(name); err == nil {
		d.RxRing, d.RxRingMax = int(r.RxPending), int(r.RxMaxPending)
	}
	return d
}
