package paper

// tableHosts is the number of hosts of table 1, and the maximum number of clients of figures 7 to
// 9.
const tableHosts = 92

// repeatTable1 makes 92 hosts of the NOW send requests to each other: one short request at a time
// for the round trip, and 8 KB messages for the bandwidth.
func repeatTable1(b *Bench, m *amModel) error {
	const hosts = tableHosts
	alone, err := measureLogP(b.Context, m.now)
	if err != nil {
		return err
	}
	peak, err := amBandwidth(b.Context, m.now, amMedium)
	if err != nil {
		return err
	}
	peaks, optimal := true, true
	for _, p := range []struct {
		name   string
		target func(i int) int
	}{
		{"cshift", func(i int) int { return (i + 1) % hosts }},
		{"neighbor", func(i int) int { return i ^ 1 }},
		{"bisection", func(i int) int { return (i + hosts/2) % hosts }},
	} {
		short, bulk, err := permutation(b, m.now, hosts, p.target)
		if err != nil {
			return err
		}
		each := bulk.all / hosts * amMedium / mega
		b.Set("table1."+p.name+"_rtt_us", short.rtt)
		b.Set("table1."+p.name+"_bw", each)
		if p.name != "bisection" {
			peaks = peaks && each > 0.8*peak
			optimal = optimal && short.rtt < 2*alone.rtt
		}
	}
	b.Holds("table1.peaks", peaks)
	b.Holds("table1.optimal", optimal)
	return nil
}

// permutation makes each host send requests to another host.
func permutation(b *Bench, cfg amConfig, hosts int, target func(i int) int) (short, bulk crowd, err error) {
	to := func(host int) amTarget { return amTarget{host: target(host)} }
	if short, err = measureCrowd(b.Context, cfg, hosts, 1, b.span(crowdTime), one, to, shortRequests); err != nil {
		return short, bulk, err
	}
	long := func(h *amHost) func() error { return h.medium(amMedium) }
	bulk, err = measureCrowd(b.Context, cfg, hosts, amUnderWay, b.span(crowdTime), one, to, long)
	return short, bulk, err
}
