package paper

const (
	figure5Decimals = "Decimals of figure 5: the text of the paper gives 4.1 us for o_s and for o_r, 12.6 for L (10.4, 1.1 and 1.1), and 15.98 for the gap (9.60, 5.3 and 1). The decimals that the text does not give are from notes on the figure's bars. Our copy of the paper has no drawings, so nobody could check these decimals again. They add up: 9.60 + 5.33 + 1.05 = 15.98, 10.36 + 1.12 + 1.12 = 12.60, and 2 (4.09 + 4.28 + 12.60) = 41.94. The text rounds an o_r of 4.28 to 4.1."
	amPrograms      = "The measured programs use package endpoint with AM-II's control program from endpoint/lanai. GAM is the same control program with parts switched off."
	ridingACKs      = "The paper's cards send each ACK in a separate packet, and our cards do the same. In a trial, an ACK waited up to 20 us for a data packet to the same card, which then carried the ACK. The gap was 12.76 us instead of 16.26 us, a server with 7 clients answered 78220 requests/s instead of 61680, and the round trip took 43.75 us instead of 42.02 us. With a wait of up to 5 us, the same three values were 12.77 us, 63300 requests/s and 42.02 us. The code of the trial is not part of Bobnet."
	cshiftTrip      = "our hosts do nothing else, so their messages fall into step and seldom wait. The paper's messages wait for a third of their round trip, which is longer than the round trip across the bisection. The paper does not state the reason"
	bisection       = "our routes use all 11 cables between the sub-clusters evenly, and packets block each other. Figure 3 of the paper does not show which cables its routes use"
	noFlush         = "streaming DMA ends with a host call that flushes a buffer. The paper does not state how long this call takes; in our model the call takes no time"
	oneOfMany       = "this row describes only one client of 84. How often this client's endpoint has a frame depends on whose messages arrive when a frame becomes free. With other choices of the driver, other routes, and threads that take no time, the fastest client was 37 to 86 % above the mean and the slowest client 34 to 45 % below the mean. The server's rate changed by 4 %"
)

func am2Paper() *Paper {
	return &Paper{
		Name:     "am2",
		Title:    "Chun, Mainwaring, Culler: Virtual Network Transport Protocols for Myrinet (1 MB is 2^20 bytes)",
		Notes:    []string{figure5Decimals, amPrograms, ridingACKs},
		Profiles: []Profile{nowProfile()},
		Items:    am2Items(),
		Left: []Left{
			{"5.1, figure 5", "GAM's o_s 1.90, o_r 4.00, g 5.80 and L 5.50 us", "our GAM is AM-II's control program with parts switched off. GAM's round trip is an input, so the parts of the round trip would not be outputs. The plot of figure 5 shows our values"},
			{"5.2 to 5.4, figures 6 to 11", "all points of the curves whose values the text does not state", "our copy of the paper has no drawings"},
			{"5.4", "averages over five minutes", "our averages are over 0.2 s of virtual time in figure 10, and over 5 s in figure 11"},
		},
		Experiments: []Experiment{
			{"figure 5", []string{
				"sec3.4.clock_mhz", "sec3.4.link", "fig5.o_s_us", "fig5.o_r_us", "fig5.l_base_us", "fig5.l_reliability_us", "fig5.l_protection_us",
				"fig5.g_reliability_us", "sec4.2.rtt_8k_us", "fig5.g_base_us", "fig5.g_protection_us",
				"fig5.gam_rtt_us", "fig5.limits", "fig5.timers", "sec4.4.2.seconds", "sec4.2.fill",
			}, OnCode, onNOW(repeatFigure5)},
			{"figure 6", []string{"fig6.streaming_4k", "fig6.consistent_8k", "fig6.gam", "fig6.small", "sec7.bandwidth"}, OnCode, onNOW(repeatFigure6)},
			{"figures 7 to 9", []string{"fig7.no_collapse", "fig7.even", "fig8.no_collapse", "fig8.even", "fig9.slope_us"}, OnCode, onNOW(repeatCrowd)},
			{"figure 10", []string{"fig10.rate", "fig10.fair"}, OnCode, onNOW(repeatFigure10)},
			{"table 1", []string{
				"table1.cshift_bw", "table1.cshift_rtt_us", "table1.neighbor_bw", "table1.neighbor_rtt_us", "table1.bisection_bw", "table1.bisection_rtt_us",
				"table1.peaks", "table1.optimal",
			}, OnCode, onNOW(repeatTable1)},
			{"figure 11", []string{"fig11.rate", "fig11.fastest", "fig11.slowest", "fig11.burst", "fig11.no_starvation"}, OnCode, onNOW(repeatFigure11)},
		},
		Figures: []string{"am2-figure5", "am2-figure6", "am2-figure7", "am2-figure8", "am2-figure9", "am2-figure10", "am2-figure11"},
	}
}

func am2Items() []Item {
	const logp, one, many, threads = "5.1, figure 5", "5.3", "5.4, figure 10", "5.4, figure 11"
	return []Item{
		{Name: "sec3.4.clock_mhz", Place: "3.4", Says: "clock of the LANai", Kind: Input, On: OnConstant, Published: 37.5, Unit: "MHz"},
		{Name: "sec3.4.link", Place: "3.4", Says: "bandwidth of a link", Kind: Input, On: OnConstant, Published: 160, Unit: "MB/s"},
		{Name: "fig5.o_s_us", Place: logp, Says: "the host's time to send a request", Kind: Input, Published: 4.09, Unit: "us"},
		{Name: "fig5.o_r_us", Place: logp, Says: "the host's time to receive a reply", Kind: Input, Published: 4.28, Unit: "us"},
		{Name: "fig5.rtt_us", Place: logp, Says: "round trip of a request of four words and its reply", Kind: Derived, Published: 42, Unit: "us", From: from("2 (o_s + o_r + L)", twice, "fig5.o_s_us", "fig5.o_r_us", "fig5.l_us")},
		{Name: "fig5.l_us", Place: logp, Says: "latency", Kind: Derived, Published: 12.60, Unit: "us", From: from("its three parts", sum, "fig5.l_base_us", "fig5.l_reliability_us", "fig5.l_protection_us")},
		{Name: "fig5.l_base_us", Place: logp, Says: "part of the latency without reliability and protection", Kind: Input, Published: 10.36, Unit: "us"},
		{Name: "fig5.l_reliability_us", Place: logp, Says: "part of the latency due to reliability", Kind: Input, Published: 1.12, Unit: "us"},
		{Name: "fig5.l_protection_us", Place: logp, Says: "part of the latency due to protection", Kind: Input, Published: 1.12, Unit: "us"},
		{Name: "fig5.g_us", Place: logp, Says: "gap, with more requests in flight than fill the pipe", Kind: Output, Published: 15.98, Unit: "us", From: from("its three parts", sum, "fig5.g_base_us", "fig5.g_reliability_us", "fig5.g_protection_us")},
		{Name: "fig5.g_base_us", Place: logp, Says: "part of the gap without reliability and protection", Kind: Output, Published: 9.60, Unit: "us"},
		{Name: "fig5.g_reliability_us", Place: logp, Says: "part of the gap due to reliability", Kind: Input, Published: 5.33, Unit: "us"},
		{Name: "fig5.g_protection_us", Place: logp, Says: "part of the gap due to protection", Kind: Output, Published: 1.05, Unit: "us"},
		{Name: "fig5.timers", Place: "5.1", Says: "timers and retransmission have no measurable cost: gap and round trip are within 1 % of the values without them", Kind: Shape},
		{Name: "fig5.limits", Place: "5.1", Says: "the card's program limits the rate of AM-II, and the host's overheads limit the rate of GAM: the gap of AM-II is longer than o_s and o_r together, and the gap of GAM is not", Kind: Shape},
		{Name: "fig5.gam_rtt_us", Place: "5.1", Says: "round trip of GAM; our GAM is the same program without virtual networks, channels and tags", Kind: Input, Published: 21, Unit: "us"},
		{Name: "sec7.end_to_end_us", Place: "7", Says: "one-way time, from program to program", Kind: Derived, Published: 21, Unit: "us", From: from("half of the round trip", half, "fig5.rtt_us")},
		{Name: "sec4.2.rtt_8k_us", Place: "4.2", Says: "round trip of an 8 KB message and a short reply", Kind: Input, Published: 349, Unit: "us"},
		{Name: "sec4.2.rate", Place: "4.2", Says: "rate of short messages", Kind: Output, Published: 62_578, Unit: "/s", From: from("one message per gap", perSecond, "fig5.g_us")},
		{Name: "sec4.2.pipe_messages", Place: "4.2", Says: "short messages that fill the pipe: rate times round trip", Kind: Output, Published: 2.63, Unit: "messages", From: from("the rate times the round trip", func(v ...float64) float64 { return v[0] * v[1] / 1e6 }, "sec4.2.rate", "fig5.rtt_us")},
		{Name: "sec4.2.pipe_bytes", Place: "4.2", Says: "bytes that fill the pipe with 8 KB messages: bandwidth times round trip", Kind: Derived, Published: 11_345, Unit: "bytes", From: from("the bandwidth times the round trip", func(v ...float64) float64 { return v[0] * mega * v[1] / 1e6 }, "fig6.streaming_4k", "sec4.2.rtt_8k_us")},
		{Name: "sec4.2.fill", Place: "4.2", Says: "short messages in flight that fill the pipe: the smallest power of two at which the rate is within 5 % of the highest rate, with channels to spare", Kind: Output, Published: 4, Unit: "messages", From: from("the messages that fill the pipe, rounded up to a power of two", nil, "sec4.2.pipe_messages")},
		{Name: "sec4.4.2.seconds", Place: "4.4.2", Says: "a message to a card that does not answer is returned after 255 tries, which take several seconds: 2 to 10", Kind: Shape},
		{Name: "fig6.streaming_4k", Place: "5.2, figure 6", Says: "bandwidth of 4 KB messages, streaming DMA", Kind: Input, Published: 31, Unit: "MB/s"},
		{Name: "fig6.consistent_8k", Place: "5.2, figure 6", Says: "bandwidth of 8 KB messages, consistent DMA", Kind: Input, Published: 23, Unit: "MB/s"},
		{Name: "fig6.gam", Place: "5.2", Says: "highest bandwidth of GAM, which pipelines", Kind: Output, Published: 38, Unit: "MB/s"},
		{Name: "fig6.small", Place: "5.2, figure 6", Says: "small transfers are faster by consistent DMA than by streaming DMA", Kind: Shape, Why: noFlush},
		{Name: "sec7.bandwidth", Place: "7", Says: "highest bandwidth of messages of any size", Kind: Output, Published: 31, Unit: "MB/s"},
		{Name: "sec7.share_of_gam", Place: "7", Says: "highest bandwidth, as a share of GAM's", Kind: Output, Published: 77, Unit: "%", From: from("the ratio of the two bandwidths, although the ratio of the paper's 31 and 38 MB/s is 82 %", percent, "sec7.bandwidth", "fig6.gam")},
		{Name: "sec7.times_gam", Place: "7", Says: "latency, as a multiple of GAM's", Kind: Derived, Published: 2, Unit: "times", From: from("the ratio of the round trips", ratio, "fig5.rtt_us", "fig5.gam_rtt_us")},
		{Name: "table1.cshift_bw", Place: "table 1", Says: "circular shift of 92 hosts, bandwidth of each host", Kind: Output, Published: 25.42, Unit: "MB/s"},
		{Name: "table1.cshift_all", Place: "table 1", Says: "circular shift of 92 hosts, bandwidth of all hosts together", Kind: Output, Published: 2.33, Unit: "GB/s", From: from("the bandwidth of each host times 92", byHosts, "table1.cshift_bw")},
		{Name: "table1.cshift_rtt_us", Place: "table 1", Says: "circular shift of 92 hosts, round trip", Kind: Output, Published: 67.8, Unit: "us", Why: cshiftTrip},
		{Name: "table1.neighbor_bw", Place: "table 1", Says: "neighbors exchange, bandwidth of each host", Kind: Output, Published: 30.97, Unit: "MB/s"},
		{Name: "table1.neighbor_all", Place: "table 1", Says: "neighbors exchange, bandwidth of all hosts together", Kind: Output, Published: 2.85, Unit: "GB/s", From: from("the bandwidth of each host times 92", byHosts, "table1.neighbor_bw")},
		{Name: "table1.neighbor_rtt_us", Place: "table 1", Says: "neighbors exchange, round trip", Kind: Output, Published: 47.5, Unit: "us"},
		{Name: "table1.bisection_bw", Place: "table 1", Says: "exchange across the bisection, bandwidth of each host", Kind: Output, Published: 5.65, Unit: "MB/s", Why: bisection},
		{Name: "table1.bisection_all", Place: "table 1", Says: "exchange across the bisection, bandwidth of all hosts together", Kind: Output, Published: 0.52, Unit: "GB/s", Why: bisection, From: from("the bandwidth of each host times 92", byHosts, "table1.bisection_bw")},
		{Name: "table1.bisection_rtt_us", Place: "table 1", Says: "exchange across the bisection, round trip", Kind: Output, Published: 50.8, Unit: "us"},
		{Name: "table1.peaks", Place: "5.2", Says: "the bandwidths of circular shift and neighbors exchange are near their peaks: within 20 % of the highest bandwidth between two hosts", Kind: Shape},
		{Name: "table1.optimal", Place: "5.2", Says: "the round trips of circular shift and neighbors exchange are within a factor of 2 of the optimum, the round trip between two hosts", Kind: Shape},
		{Name: "fig7.no_collapse", Place: one + ", figure 7", Says: "the rate of a server with 92 clients, over one second, is within 10 % of its rate with 4 clients", Kind: Shape},
		{Name: "fig7.even", Place: one, Says: "the variation of the rates of 92 clients is too small to be seen: each rate is within 5 % of the mean", Kind: Shape},
		{Name: "fig8.no_collapse", Place: one + ", figure 8", Says: "the bandwidth of a server that receives 1 KB messages from 92 clients is within 10 % of its bandwidth with 4 clients", Kind: Shape},
		{Name: "fig8.even", Place: one, Says: "the variation of the bandwidths of 92 clients is too small to be seen: each bandwidth is within 5 % of the mean", Kind: Shape},
		{Name: "fig9.slope_us", Place: one + ", figure 9", Says: "time that each additional client, from 4 to 92, adds to the round trip: the gap", Kind: Output, Published: 15.98, Unit: "us", From: from("the gap", nil, "fig5.g_us")},
		{Name: "fig10.rate", Place: many, Says: "rate of a server with 7 clients, which has a separate endpoint for each client", Kind: Derived, Computed: true, Published: 62_578, Unit: "/s", From: from("the highest rate that the gap allows; the paper's value is within 11 % of this rate", nil, "sec4.2.rate")},
		{Name: "fig10.fair", Place: many, Says: "with 1, 4 and 7 such clients, the server's rate is within 11 % of the highest rate that the gap allows, and each client's rate is within 16 % of its share", Kind: Shape},
		{Name: "fig11.rate", Place: threads, Says: "rate of a server with a thread and a semaphore for each of 84 endpoints, with 12 endpoints for each frame", Kind: Output, Published: 53_488, Unit: "/s"},
		{Name: "fig11.fastest", Place: threads, Says: "how far the fastest client is above the mean", Kind: Output, Published: 40, Unit: "%", Why: oneOfMany},
		{Name: "fig11.slowest", Place: threads, Says: "how far the slowest client is below the mean", Kind: Output, Published: 36, Unit: "%", Why: oneOfMany},
		{Name: "fig11.burst", Place: threads, Says: "rate of a client whose endpoint at the server is in a frame, between pauses of 10 ms: a seventh of the server's rate, as in figure 10", Kind: Derived, Computed: true, Published: 62_578.0 / 7, Unit: "/s", From: from("a seventh of the rate", nil, "sec4.2.rate")},
		{Name: "fig11.no_starvation", Place: threads, Says: "all clients make progress, although 12 endpoints compete for each frame: each client gets at least a third of its share", Kind: Shape},
	}
}
