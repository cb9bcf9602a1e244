package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// nowConfig is a card of the NOW with AM-II's control program. A host that waits looks at
// the card all the time, as in the paper's measurements.
func nowConfig() lanai.Config {
	t := myrinet.SBusTiming()
	t.PIOWrite, t.PIORead, t.DMASetup, t.DMABandwidth = 256, 181, 44*time.Microsecond, 95_200_000
	return lanai.Config{
		Card: myrinet.CardConfig{Timing: t}, Spin: true,
		Costs: lanai.Costs{Send: 229, Receive: 128, Bind: 21, Arrive: 21, Answer: 15, Answered: 15, Check: 42},
	}
}

func nowProfile() Profile {
	c := nowConfig()
	t, costs := c.Card.Timing, c.Costs
	return Profile{"now", "UltraSPARC of 167 MHz, SBus, LANai 4.1 at 37.5 MHz; 40 switches of 8 ports", []Constant{
		{"clock of the card", float64(t.Clock) / 1e6, "MHz", "sec3.4.clock_mhz", ""},
		{"link", 160, "MB/s", "sec3.4.link", "of 10^6 octets"},
		{"I/O write", micro(t.PIOWrite), "us", "fig5.o_s_us", "a word; a request writes 16"},
		{"I/O read", micro(t.PIORead), "us", "fig5.o_r_us", "a word; a reply is 18 of them, and 4 writes; it is less than a write because the processor's reads of several words at a time are not modelled"},
		{"program, a message sent and received", float64(costs.Send + costs.Receive), "cycles", "fig5.l_base_us", "by both cards"},
		{"program, of these to receive a packet", float64(costs.Receive), "cycles", "fig5.g_reliability_us", "which an ACK costs, too"},
		{"program, a channel looked up", float64(costs.Bind), "cycles", "fig5.l_reliability_us", "at each end"},
		{"program, a tag checked", float64(costs.Check), "cycles", "fig5.l_protection_us", ""},
		{"program, an ACK made, and taken", float64(costs.Answer), "cycles", "", "each; the paper does not tell them from the rest of reliability"},
		{"rate of the bus", float64(t.DMABandwidth) / 1e6, "MB/s", "sec4.2.rtt_8k_us", "of 10^6 octets"},
		{"start of a DMA", micro(t.DMASetup), "us", "fig6.streaming_4k", "with the system call that flushes the stream buffer"},
	}}
}

const (
	noThreads = "not measured: no experiment has a thread and a semaphore for each endpoint"
	oneEngine = "a host sends and receives 8 KB at the same time here, and one engine carries both over its bus; the paper does not give the size of its messages"
)

func am2Paper() *Paper {
	return &Paper{
		Name:     "am2",
		Title:    "Chun, Mainwaring, Culler: Virtual Network Transport Protocols for Myrinet (MB are 2^20 octets)",
		Profiles: []Profile{nowProfile()},
		Items:    am2Items(),
		Experiments: []Experiment{
			{"figure 5", []string{
				"sec3.4.clock_mhz", "sec3.4.link", "fig5.o_s_us", "fig5.o_r_us", "fig5.l_base_us", "fig5.l_reliability_us", "fig5.l_protection_us",
				"fig5.g_reliability_us", "sec4.2.rtt_8k_us", "fig5.rtt_us", "fig5.l_us", "fig5.g_us", "fig5.g_base_us", "fig5.g_protection_us",
				"fig5.gam_rtt_us", "fig5.timers", "sec4.2.pipe_messages",
			}, repeatFigure5},
			{"figure 6", []string{"fig6.streaming_4k", "fig6.gam"}, repeatFigure6},
			{"figures 7 to 9", []string{"fig7.no_collapse", "fig8.no_collapse", "fig9.slope_us"}, repeatCrowd},
			{"figure 10", []string{"fig10.rate", "fig10.fair"}, repeatFigure10},
			{"table 1", []string{
				"table1.cshift_bw", "table1.cshift_rtt_us", "table1.neighbor_bw", "table1.neighbor_rtt_us", "table1.bisection_bw", "table1.bisection_rtt_us",
			}, repeatTable1},
		},
		Figures: []string{"am2-figure6", "am2-figure7", "am2-figure8", "am2-figure9", "am2-figure10"},
	}
}

func am2Items() []Item {
	const logp, one, many = "5.1, figure 5", "5.3", "5.4, figure 10"
	return []Item{
		{Name: "sec3.4.clock_mhz", Place: "3.4", Says: "clock of the LANai", Kind: Input, Published: 37.5, Unit: "MHz"},
		{Name: "sec3.4.link", Place: "3.4", Says: "bandwidth of a link", Kind: Input, Published: 160, Unit: "MB/s"},
		{Name: "fig5.o_s_us", Place: logp, Says: "the host's time to send a request", Kind: Input, Published: 4.09, Unit: "us"},
		{Name: "fig5.o_r_us", Place: logp, Says: "the host's time to receive a reply", Kind: Input, Published: 4.28, Unit: "us"},
		{Name: "fig5.rtt_us", Place: logp, Says: "round trip of a request of four words and its reply", Kind: Output, Published: 42, Unit: "us"},
		{Name: "fig5.l_us", Place: logp, Says: "latency", Kind: Output, Published: 12.60, Unit: "us"},
		{Name: "fig5.l_base_us", Place: logp, Says: "of it, without reliability and protection", Kind: Input, Published: 10.36, Unit: "us"},
		{Name: "fig5.l_reliability_us", Place: logp, Says: "of it, reliability", Kind: Input, Published: 1.12, Unit: "us"},
		{Name: "fig5.l_protection_us", Place: logp, Says: "of it, protection", Kind: Input, Published: 1.12, Unit: "us"},
		{Name: "fig5.g_us", Place: logp, Says: "gap, with more requests under way than fill the pipe", Kind: Output, Published: 15.98, Unit: "us"},
		{Name: "fig5.g_base_us", Place: logp, Says: "of it, without reliability and protection", Kind: Output, Published: 9.60, Unit: "us"},
		{Name: "fig5.g_reliability_us", Place: logp, Says: "of it, reliability", Kind: Input, Published: 5.33, Unit: "us"},
		{Name: "fig5.g_protection_us", Place: logp, Says: "of it, protection", Kind: Output, Published: 1.05, Unit: "us"},
		{Name: "fig5.timers", Place: "5.1", Says: "timers and retransmission cost nothing that could be measured: gap and round trip are within 1 % of those without", Kind: Shape},
		{Name: "fig5.gam_rtt_us", Place: "5.1", Says: "round trip of GAM: here the same program without channels and tags", Kind: Output, Published: 21, Unit: "us",
			Why: "GAM was another program, with shorter descriptors and without a private header for each message; ours leaves out the protocols alone, and costs the host the same"},
		{Name: "sec4.2.rtt_8k_us", Place: "4.2", Says: "round trip of a message of 8 KB and a short reply", Kind: Input, Published: 349, Unit: "us"},
		{Name: "sec4.2.pipe_messages", Place: "4.2", Says: "short messages that fill the pipe: rate times round trip", Kind: Output, Published: 2.63, Unit: "messages"},
		{Name: "fig6.streaming_4k", Place: "5.2, figure 6", Says: "bandwidth of messages of 4 KB, streaming DMA", Kind: Input, Published: 31, Unit: "MB/s"},
		{Name: "fig6.consistent_8k", Place: "5.2, figure 6", Says: "bandwidth of messages of 8 KB, consistent DMA", Kind: Output, Published: 23, Unit: "MB/s",
			Why: "not measured: the model has one kind of DMA"},
		{Name: "fig6.gam", Place: "5.2", Says: "highest bandwidth of GAM: here of 8 KB without channels and tags, and without its pipelining", Kind: Output, Published: 38, Unit: "MB/s"},
		{Name: "table1.cshift_bw", Place: "table 1", Says: "circular shift of 92 hosts, bandwidth of each", Kind: Output, Published: 25.42, Unit: "MB/s"},
		{Name: "table1.cshift_rtt_us", Place: "table 1", Says: "its round trip", Kind: Output, Published: 67.8, Unit: "us", Why: "the routes of our mapper spread over the fat trees, so that short messages meet little else; the paper's are not published"},
		{Name: "table1.neighbor_bw", Place: "table 1", Says: "neighbors exchange, bandwidth of each", Kind: Output, Published: 30.97, Unit: "MB/s", Why: oneEngine},
		{Name: "table1.neighbor_rtt_us", Place: "table 1", Says: "their round trip", Kind: Output, Published: 47.5, Unit: "us"},
		{Name: "table1.bisection_bw", Place: "table 1", Says: "exchange across the bisection, bandwidth of each", Kind: Output, Published: 5.65, Unit: "MB/s", Why: "the cables of the bisection are where figure 3 of the paper shows them by number only; ours join three sub-clusters by two switches, and halves of 46 hosts need not be its halves"},
		{Name: "table1.bisection_rtt_us", Place: "table 1", Says: "their round trip", Kind: Output, Published: 50.8, Unit: "us"},
		{Name: "fig7.no_collapse", Place: one + ", figure 7", Says: "the rate of a server with 92 clients is within 10 % of that with 4", Kind: Shape},
		{Name: "fig8.no_collapse", Place: one + ", figure 8", Says: "so is the bandwidth of messages of 1 KB", Kind: Shape,
			Why: "368 messages of 1 KB are under way from 92 clients, which the server takes 27 ms to receive: those that wait longer than the time-out of 16 ms go again, and the 20 ms that are counted are shorter than that"},
		{Name: "fig9.slope_us", Place: one + ", figure 9", Says: "what each further client, from 4 to 92, adds to the round trip: the gap", Kind: Output, Published: 15.98, Unit: "us"},
		{Name: "fig10.rate", Place: many, Says: "rate of a server with 7 clients, each with an endpoint of its own", Kind: Output, Published: 62_578, Unit: "/s"},
		{Name: "fig10.fair", Place: many, Says: "with 1, 4 and 7 such clients the rate is within 11 % of that, each client's within 16 % of its share", Kind: Shape},
		{Name: "fig11.rate", Place: "5.4, figure 11", Says: "rate of a server with a thread and a semaphore for each endpoint", Kind: Output, Published: 53_488, Unit: "/s", Why: noThreads},
	}
}

func repeatFigure5(b *Bench) error {
	all, plain, reliable, untimed := nowConfig(), nowConfig(), nowConfig(), nowConfig()
	plain.Unreliable, plain.Unprotected = true, true
	reliable.Unprotected = true
	untimed.Channels = reliability.ChannelConfig{Timeout: int64(time.Minute)}
	var l [4]logP
	for i, cfg := range []lanai.Config{all, plain, reliable, untimed} {
		var err error
		if l[i], err = measureLogP(b.Context, cfg); err != nil {
			return err
		}
	}
	am2, base, rel := l[0], l[1], l[2]
	b.Set("sec3.4.clock_mhz", float64(all.Card.Timing.Clock)/1e6)
	b.Set("sec3.4.link", 160)
	b.Set("fig5.o_s_us", am2.send)
	b.Set("fig5.o_r_us", am2.receive)
	b.Set("fig5.rtt_us", am2.rtt)
	b.Set("fig5.l_us", am2.latency)
	b.Set("fig5.l_base_us", base.latency)
	b.Set("fig5.l_reliability_us", rel.latency-base.latency)
	b.Set("fig5.l_protection_us", am2.latency-rel.latency)
	b.Set("fig5.g_us", am2.gap)
	b.Set("fig5.g_base_us", base.gap)
	b.Set("fig5.g_reliability_us", rel.gap-base.gap)
	b.Set("fig5.g_protection_us", am2.gap-rel.gap)
	b.Set("fig5.gam_rtt_us", base.rtt)
	b.Set("sec4.2.rtt_8k_us", am2.rtt8k)
	b.Set("sec4.2.pipe_messages", am2.rtt/am2.gap)
	near := func(a, b float64) bool { return a < b*1.01 && b < a*1.01 }
	b.Holds("fig5.timers", near(l[3].gap, am2.gap) && near(l[3].rtt, am2.rtt))
	return nil
}

func repeatFigure6(b *Bench) error {
	gam := nowConfig()
	gam.Unreliable, gam.Unprotected = true, true
	ours := plot.Series{Name: "ours"}
	for _, n := range []int{128, 512, 1024, 2048, 4096, amMedium} {
		rate, err := amBandwidth(b.Context, nowConfig(), n)
		if err != nil {
			return err
		}
		if n == 4096 {
			b.Set("fig6.streaming_4k", rate)
		}
		ours.Points = append(ours.Points, plot.Point{X: float64(n), Value: rate})
	}
	rate, err := amBandwidth(b.Context, gam, amMedium)
	b.Set("fig6.gam", rate)
	b.Draw(Figure{"am2-figure6", "Bandwidth over message size", []plot.Panel{{
		Title: "Sending bandwidth", Y: "MB/s (2^20)",
		Series: []plot.Series{
			ours, {Name: "paper, streaming", Points: []plot.Point{{X: 4096, Value: 31}}},
			{Name: "paper, consistent", Points: []plot.Point{{X: 8192, Value: 23}}},
		},
	}}})
	return err
}

// repeatCrowd has more and more clients ask one endpoint: in figure 7 with four short
// requests under way from each, in figure 8 with messages of 1 KB, in figure 9 with one
// request.
func repeatCrowd(b *Bench) error {
	const few, many = 4, 92
	var rates, each, bytes, trips plot.Series
	at := map[string]map[int]float64{"fig7": {}, "fig8": {}, "fig9": {}}
	for _, n := range []int{1, few, 16, many} {
		ask := func(underWay int, request func(h *amHost) func() error) (crowd, error) {
			return measureCrowd(b.Context, nowConfig(), n+1, underWay, one, onServer, request)
		}
		short, err := ask(4, shortRequests)
		if err != nil {
			return err
		}
		kilo, err := ask(4, func(h *amHost) func() error { return h.medium(1024) })
		if err != nil {
			return err
		}
		alone, err := ask(1, shortRequests)
		if err != nil {
			return err
		}
		x := float64(n)
		at["fig7"][n], at["fig8"][n], at["fig9"][n] = short.all, kilo.all*1024/mega, alone.rtt
		rates.Points = append(rates.Points, plot.Point{X: x, Value: short.all})
		each.Points = append(each.Points, plot.Point{X: x, Value: short.all / x})
		bytes.Points = append(bytes.Points, plot.Point{X: x, Value: at["fig8"][n]})
		trips.Points = append(trips.Points, plot.Point{X: x, Value: alone.rtt})
	}
	b.Holds("fig7.no_collapse", at["fig7"][many] > 0.9*at["fig7"][few])
	b.Holds("fig8.no_collapse", at["fig8"][many] > 0.9*at["fig8"][few])
	b.Set("fig9.slope_us", (at["fig9"][many]-at["fig9"][few])/(many-few))
	rates.Name, each.Name, bytes.Name, trips.Name = "server", "client, mean", "server", "client, mean"
	for _, f := range []struct {
		name, title, unit string
		series            []plot.Series
	}{
		{"am2-figure7", "Message rates of one server and its clients", "messages/s", []plot.Series{rates, each}},
		{"am2-figure8", "Bandwidth of messages of 1 KB to one server", "MB/s (2^20)", []plot.Series{bytes}},
		{"am2-figure9", "Round trips to one server", "us", []plot.Series{trips}},
	} {
		b.Draw(Figure{f.name, f.title, []plot.Panel{{Title: f.title, X: "clients", Y: f.unit, Series: f.series}}})
	}
	return nil
}

// repeatFigure10 gives each client an endpoint of its own at the server.
func repeatFigure10(b *Bench) error {
	rates := plot.Series{Name: "server"}
	each := plot.Series{Name: "client, mean"}
	peak, fair := b.paper.item("fig10.rate").Published, true
	for _, n := range []int{1, 4, 7} {
		endpoints := func(host int) int {
			if host == 0 {
				return n
			}
			return 1
		}
		c, err := measureCrowd(b.Context, nowConfig(), n+1, 4, endpoints, toOwnEndpoint, shortRequests)
		if err != nil {
			return err
		}
		slowest, fastest := c.spread()
		fair = fair && c.all > 0.89*peak && slowest > -0.16 && fastest < 0.16
		rates.Points = append(rates.Points, plot.Point{X: float64(n), Value: c.all})
		each.Points = append(each.Points, plot.Point{X: float64(n), Value: c.all / float64(n)})
		if n == 7 {
			b.Set("fig10.rate", c.all)
		}
	}
	b.Holds("fig10.fair", fair)
	b.Draw(Figure{"am2-figure10", "Message rates with a virtual network for each client", []plot.Panel{{
		Title: "Small numbers of virtual networks", X: "virtual networks", Y: "messages/s", Series: []plot.Series{rates, each},
	}}})
	return nil
}

// repeatTable1 has 92 hosts of the NOW ask each other: for the round trip a short request
// at a time, for the bandwidth messages of 8 KB.
func repeatTable1(b *Bench) error {
	const hosts = 92
	long := func(h *amHost) func() error { return h.medium(amMedium) }
	for name, target := range map[string]func(i int) int{
		"cshift":    func(i int) int { return (i + 1) % hosts },
		"neighbor":  func(i int) int { return i ^ 1 },
		"bisection": func(i int) int { return (i + hosts/2) % hosts },
	} {
		to := func(host int) amTarget { return amTarget{host: target(host)} }
		short, err := measureCrowd(b.Context, nowConfig(), hosts, 1, one, to, shortRequests)
		if err != nil {
			return err
		}
		bulk, err := measureCrowd(b.Context, nowConfig(), hosts, 4, one, to, long)
		if err != nil {
			return err
		}
		b.Set("table1."+name+"_rtt_us", short.rtt)
		b.Set("table1."+name+"_bw", bulk.all/hosts*amMedium/mega)
	}
	return nil
}
