package paper

import "github.com/bobnet-go/bobnet/endpoint"

const (
	layersAreModels = "**This section does not measure package splitc, except in shared memory.** The layers over VIA are models: internal/paper/vialayers.go sends a message for each request and for each answer, as the paper's layers do. Package splitc puts several into one. The models run on a VIA control program that exists in internal/paper only (viacard.go). The smallest message of the layers over VIA is 12 bytes instead of the paper's 4. The applications are skeletons (internal/paper/skeleton), which send the messages of the programs under examples, and replace computation by a constant time. On the NOW the skeletons' requests are messages of package endpoint over AM-II's control program."
	codeIsBeside    = "The column code has package splitc itself, with its layers am, reliable and unreliable over VIs of package vipl, on cards of this profile that carry frames (internal/myrinet/plain), and with its layer am on the NOW's cards. Each process pays o_s for a frame that it sends and o_r for one that it receives; it does not pay for AMVIA's poll routine, which belongs to other code. A store counts until it has arrived. Package splitc puts several gets, puts and stores into a frame, so these take a fraction of the time of the paper's layers. The NOW's layer sends a message for each, and is slower than the layers over VIs. The applications of figure 6-5 have no value there: those under examples compute with values."
	nowRatio        = "our AM on the NOW takes 21 us, as in its own paper (see am2), and not a third of 53 us as in this paper's figure"
	sharedMemory    = "measured on the machine that runs this, by the layer shm of package splitc: virtual time has no model of a processor's loads and stores"
	anomaly         = "not a goal: over AMVIA it is 54 % faster on one processor, which the paper, too, calls an anomaly"
	nowScales       = "ours scales further. The paper suspects too little bandwidth across the network. But ours scales alike with hosts of all three sub-clusters of the NOW, which 11 cables join, and also when all send to the same processor first, or 4 KB at a time"
	nowCG           = "ours scales further; the paper does not know why its own did so badly"
	sharedCard      = "two processes ring twice as many doorbells of one card, and send twice as many messages. If the card's program took no time, 16 processors would be slower by 3 %, not by a third. The transpose is a separate step, in which a rank stores all rows for one rank, then those for the next. If it stores each plane's rows to all ranks before the next plane, it is 1 % faster on 4 processors, and slower on 8 and 16"
	fewOperations   = "with 4 cycles for an arithmetic operation, Cholesky over AMVIA is slower on 8 processors than on 4. One processor has a whole column and sends it to all others: on 8 processors that takes longer, while the computation takes half as long"
	nowProcessors   = "the result depends on the speed of both machines' processors. With equal cycles for an operation, the Millennium's processors are 2.4 times as fast, and the statement does not hold"
	nearlyCG        = "conjugate gradient over unreliable VIA, the Millennium's fastest layer, is 3 % faster than on the NOW. If the NOW's processors are 0.7 instead of 0.65 times as fast as the Millennium's, conjugate gradient is faster on the NOW, too. If they are 0.6 times as fast, Cholesky is not faster on the NOW"
	lessThanAMVIA   = "of AMVIA's poll routine, and of what AMVIA takes to take back a send descriptor: 7.5 us and 13.5 us. The paper says that these layers marshal and dispatch less, not how much"
	recyclingTakes  = "the paper says that marshalling and the recycling of send descriptors add a factor that is in neither stream, and not how much: the gap says it"
)

// millenniumProfile lists the constants of the model, and the number that fixed each.
func millenniumProfile(m *viaModel) Profile {
	t := m.timing
	return Profile{"millennium", "two-way 400 MHz Pentium II, Linux 2.2.1, Myrinet, VIA implemented by a control program that scans doorbells", []Constant{
		chosen("program, a doorbell looked at", float64(m.costs.Look), "cycles", "a load, a comparison, a branch and what else a loop has. Those for sends of all VIs are looked at in turn: AMVIA has three for each connection",
			func(m *viaModel, by float64) { multiply(by, &m.costs.Look) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("program, a message sent", float64(m.costs.Send), "cycles", "fig6-2.plateau_us", "what is left of it beside the looks at three doorbells, the DMA of descriptor, data and status, and the link"),
		fixed("program, a packet received", float64(m.costs.Receive), "cycles", "sec6.1.via_us", "what is left of the one-way time; packets are served in between doorbells, and the receive that was posted is fetched upon arrival, as the paper has it"),
		fixed("host, a message sent", micro(m.send), "us", "table6-1.o_s_us", "beside the word that it writes to the card"),
		fixed("host, a message received", micro(m.receive), "us", "table6-1.o_r_us", ""),
		fixed("host, AMVIA's poll routine", micro(m.poll), "us", "sec6.1.amvia_adds_us", "to which the paper attributes all that AMVIA adds: completion queue, VI, descriptor, marshalling, dispatch; once for the request and the reply that it handles"),
		fixed("host, a send descriptor taken back", micro(m.recycle), "us", "table6-1.g_us", recyclingTakes+". One at each poll, as the paper has it"),
		chosen("host, layers over VIA", m.lean, "times", lessThanAMVIA,
			func(m *viaModel, by float64) { m.lean *= by }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("host, rate of copies", m.memory/1e6, "MB/s", "sec6.1.amvia_mbps", "with all that a medium message costs the host, which the paper does not separate from its copy"),
		stated("credits, short messages", float64(m.credits[viaShort]), "messages", "in section 7.2, and in figure 6-2"),
		stated("credits, medium messages", float64(m.credits[viaMedium]), "messages", "in section 7.2"),
		chosen("clock of the card", float64(t.Clock)/1e6, "MHz", "the paper has no number; that of the VMMC paper's PCI, as are the next ones",
			func(m *viaModel, by float64) { multiply(by, &m.timing.Clock) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("start of a DMA", micro(t.DMASetup), "us", "as the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.DMASetup) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("rate of the bus", float64(t.DMABandwidth)/1e6, "MB/s", "as the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.DMABandwidth) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("I/O write", micro(t.PIOWrite), "us", "as the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.PIOWrite) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("I/O read", micro(t.PIORead), "us", "as the clock of the card; the host of the models reads nothing from the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.PIORead) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("interrupt", micro(t.Interrupt), "us", "as the clock of the card; no process of the models waits for one",
			func(m *viaModel, by float64) { multiply(by, &m.timing.Interrupt) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("link", float64(m.fabric.Bandwidth)/1e6, "MB/s", "as the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.fabric.Bandwidth) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("clock of the host's processor", m.clock/1e6, "MHz", "abstract.clock_mhz", ""),
		chosen("applications, an arithmetic operation", m.operation, "cycles", "80 million a second: the paper does not say how long applications compute. The programs are skeletons of those under examples: they send what these send, 3D FFT in a step of its own, without values, and compute for so long",
			func(m *viaModel, by float64) { m.operation *= by }).of("figure 6-5"),
		chosen("applications, speed of the NOW's processor", m.now, "times", "of this one's: a little less than what SPECfp95 has of an UltraSPARC of 167 MHz (9) and a Pentium II of 400 MHz (12 to 13), as SPECint95 has 0.4. Cards and programs there are those of profile now",
			func(m *viaModel, by float64) { m.now *= by }).of("figure 6-5"),
		chosen("applications, a store in shared memory", micro(m.store), "us", "the paper has under 0.4",
			func(m *viaModel, by float64) { multiply(by, &m.store) }).of("figure 6-5"),
		chosen("applications, rate of such stores", m.storeRate/1e6, "MB/s", "of the order of what such a processor copies",
			func(m *viaModel, by float64) { m.storeRate *= by }).of("figure 6-5"),
		chosen("EM3D, what a particle depends on", float64(m.em3d.Degree), "particles", "the paper does not say; as in other graphs of Split-C's authors. Each value is a store of its own; 2 steps, as all are alike",
			func(m *viaModel, by float64) { multiply(by, &m.em3d.Degree) }).of("figure 6-5"),
		chosen("conjugate gradient, elements of a row", float64(m.cg.Row+1), "elements", "the paper does not say; as in examples/cg; 10 steps, as all are alike",
			func(m *viaModel, by float64) { multiply(by, &m.cg.Row) }).of("figure 6-5"),
		chosen("ray tracing, a pixel", float64(m.teapot.Pixel), "operations", "four times as many where the teapot is; 240 x 180 pixels in tiles of 16 x 16, the paper has no size",
			func(m *viaModel, by float64) { multiply(by, &m.teapot.Pixel) }).of("figure 6-5"),
	}}
}

func splitcPaper() *Paper {
	return &Paper{
		Name:     "splitc",
		Title:    "Begel, Buonadonna, Gay: Split-C for the New Millennium",
		Notes:    []string{layersAreModels, codeIsBeside},
		Profiles: []Profile{millenniumProfile(newVIAModel())},
		Left: []Left{
			{"6.1, figure 6-1", "bandwidth of VIA, and of AM on the NOW, by message size", "the text states only that AMVIA's bandwidth is less than half of either; section am2 has the bandwidth of AM on the NOW"},
			{"6.2, figure 6-4", "bulk reads and stores, and shared memory that two processes write", "our copy of the paper has no drawings, and virtual time has no model of a processor's cache"},
			{"6.3", "ray tracing over AMVIA is 54 % faster on one processor than over reliable and unreliable VIA", "the paper calls it an anomaly; one processor computes the same over all layers here"},
			{"6.3, figure 6-5", "all speeds", "the text compares them without numbers"},
			{"7.2", "bulk messages of 80 KB", "the models have short and medium messages, as Split-C's layers use them"},
			{"6.2", "the mean of 10,000 primitives", "ours is the mean of 640, or of 100 that block"},
		},
		Items: splitcItems(),
		Experiments: []Experiment{
			{"AMVIA", []string{
				"fig6-2.plateau_us", "sec6.1.via_us", "table6-1.o_s_us", "table6-1.o_r_us", "sec6.1.amvia_adds_us", "sec6.1.amvia_mbps",
				"sec6.1.of_now", "sec6.1.of_via", "table6-1.g_us", "fig6-2.knee", "sec7.2.buffers_kb", "sec7.2.one_vi",
			}, OnModel, onMillennium(repeatAMVIA)},
			{"figure 6-3", []string{
				"fig6-3.stores_reliable", "fig6-3.stores_unreliable", "fig6-3.both_read", "fig6-3.both_write", "fig6-3.both_get",
				"fig6-3.both_put", "fig6-3.both_store", "fig6-3.now", "fig6-3.overhead",
			}, OnModel, onMillennium(repeatPrimitives)},
			{"shared memory", []string{"fig6-3.shared"}, OnCode, repeatShared},
			{"figure 6-4", []string{"fig6-4.small", "fig6-4.large"}, OnModel, onMillennium(repeatBulk)},
			{"figure 6-5", []string{
				"abstract.clock_mhz", "fig6-5.unreliable", "fig6-5.raytrace", "fig6-5.poor", "fig6-5.stores", "fig6-5.fft3d_now", "fig6-5.fft3d_shared",
				"fig6-5.cg_now", "fig6-5.cholesky", "fig6-5.cholesky_shared", "fig6-5.cholesky_now", "fig6-5.only_cholesky_now",
			}, OnModel, onMillennium(repeatApplications)},
		},
		Figures: []string{"splitc-figure6-2", "splitc-figure6-3", "splitc-figure6-4", "splitc-figure6-5-regular", "splitc-figure6-5-irregular"},
	}
}

func splitcItems() []Item {
	const am, logp, primitives, bulk, buffers, apps = "6.1", "6.1, table 6-1", "6.2, figure 6-3", "6.2, figure 6-4", "7.2", "6.3, figure 6-5"
	return []Item{
		{Name: "fig6-2.plateau_us", Place: "6.1, figure 6-2", Says: "between the requests of a burst: a process waits for the card to look at a doorbell", Kind: Input, Published: 15, Unit: "us"},
		{Name: "sec6.1.via_us", Place: am, Says: "one way, VIA: 53 less 15", Kind: Input, Published: 38, Unit: "us"},
		{Name: "table6-1.o_s_us", Place: logp, Says: "AMVIA, send overhead", Kind: Input, Published: 3, Unit: "us"},
		{Name: "table6-1.o_r_us", Place: logp, Says: "AMVIA, receive overhead", Kind: Input, On: OnConstant, Published: 5, Unit: "us"},
		{Name: "sec6.1.amvia_adds_us", Place: am, Says: "what AMVIA adds to VIA, one way", Kind: Input, Published: 15, Unit: "us"},
		{Name: "sec6.1.amvia_mbps", Place: am, Says: "AMVIA, stream of messages of 4 KB", Kind: Input, Published: 172, Unit: "Mb/s"},
		{Name: "sec6.1.amvia_us", Place: am, Says: "one way, AMVIA", Kind: Derived, Published: 53, Unit: "us", From: from("the sum", sum, "sec6.1.via_us", "sec6.1.amvia_adds_us")},
		{Name: "sec6.1.of_now", Place: am, Says: "that over one way of AM on the NOW", Kind: Derived, Published: 3, Unit: "times", Why: nowRatio, From: from("that over half of am2's fig5.rtt_us; they are 53 and 21 us", nil, "sec6.1.amvia_us")},
		{Name: "sec6.1.of_via", Place: am, Says: "AMVIA's stream is less than half of VIA's", Kind: Shape},
		{Name: "table6-1.l_us", Place: logp, Says: "AMVIA, latency", Kind: Derived, Published: 45, Unit: "us", From: from("one way without the overheads", func(v ...float64) float64 { return v[0] - v[1] - v[2] }, "sec6.1.amvia_us", "table6-1.o_s_us", "table6-1.o_r_us")},
		{Name: "table6-1.g_us", Place: logp, Says: "AMVIA, gap", Kind: Input, Published: 50, Unit: "us"},
		{Name: "fig6-2.knee", Place: "6.1, figure 6-2", Says: "the burst above which the time per message rises to the gap", Kind: Output, Published: 64, Unit: "requests"},
		{Name: "sec7.2.buffers_kb", Place: buffers, Says: "buffers of a connection, (4k+1)M for each VI, with messages of 64 B, 4 KB and 80 KB", Kind: Derived, On: OnNumbers, Published: 540, Unit: "KB", From: from("from the paper's credits and sizes of messages", nil)},
		{Name: "sec7.2.one_vi", Place: buffers, Says: "with one VI and 32 credits they are more than 10 MB", Kind: Shape, On: OnNumbers},
		{Name: "fig6-3.stores_reliable", Place: primitives, Says: "rate of stores over that of gets and puts, reliable VIA", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.stores_unreliable", Place: primitives, Says: "the same, unreliable VIA", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_read", Place: primitives, Says: "time of a read with both sending, over that with one; as the next ones, the mean of the three layers over VIA", Kind: Output, Published: 1, Unit: "times"},
		{Name: "fig6-3.both_write", Place: primitives, Says: "of a write", Kind: Output, Published: 1, Unit: "times"},
		{Name: "fig6-3.both_get", Place: primitives, Says: "of a get", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_put", Place: primitives, Says: "of a put", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_store", Place: primitives, Says: "of a store", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.now", Place: primitives, Says: "the NOW is faster than all layers over VIA, in all primitives", Kind: Shape},
		{Name: "fig6-3.overhead", Place: "6.3", Says: "stores favour reliable and unreliable VIA: they are faster there than over AMVIA, and by more than gets and puts are", Kind: Shape},
		{Name: "fig6-3.shared", Place: primitives, Says: "any primitive in shared memory takes less than 0.4 us", Kind: Shape, Why: sharedMemory},
		{Name: "fig6-4.small", Place: bulk, Says: "gets of 4 bytes with both sending take twice as long", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-4.large", Place: bulk, Says: "the difference is smaller with gets of 4 KB", Kind: Shape},
		{Name: "abstract.clock_mhz", Place: "abstract", Says: "clock of the processors", Kind: Input, On: OnConstant, Published: 400, Unit: "MHz"},
		{Name: "fig6-5.unreliable", Place: apps, Says: "unreliable VIA has the best overall performance, slightly ahead of reliable VIA: in the geometric mean of all speeds, by less than 10 %", Kind: Shape},
		{Name: "fig6-5.raytrace", Place: apps, Says: "ray tracing has the best speed-up on 16 processors, over each layer and on the NOW", Kind: Shape, Why: anomaly},
		{Name: "fig6-5.poor", Place: apps, Says: "conjugate gradient and EM3D scale poorly: they use less than half of 16 processors, over each layer and on the NOW", Kind: Shape},
		{Name: "fig6-5.stores", Place: apps, Says: "as they use stores, they are faster over reliable and unreliable VIA than over AMVIA", Kind: Shape},
		{Name: "fig6-5.fft3d_now", Place: apps, Says: "3D FFT on the NOW fails to scale past 8 processors: it is faster by less than a tenth on 16", Kind: Shape, Why: nowScales},
		{Name: "fig6-5.fft3d_shared", Place: apps, Says: "3D FFT is slower with shared memory than without, on more than the two processors that need no card", Kind: Shape, Why: sharedCard},
		{Name: "fig6-5.cg_now", Place: apps, Says: "conjugate gradient does terribly on the NOW beyond two processors: it is slower on 16", Kind: Shape, Why: nowCG},
		{Name: "fig6-5.cholesky", Place: apps, Says: "Cholesky scales reasonably past two processors: over each layer it is faster with each doubling", Kind: Shape, Why: fewOperations},
		{Name: "fig6-5.cholesky_shared", Place: apps, Says: "Cholesky scales linearly with two processors that share memory: 1.8 times at the least", Kind: Shape},
		{Name: "fig6-5.cholesky_now", Place: apps, Says: "Cholesky on 16 processors is faster on the NOW than on the Millennium", Kind: Shape, Why: nowProcessors},
		{Name: "fig6-5.only_cholesky_now", Place: apps, Says: "no other application is", Kind: Shape, Why: nearlyCG},
	}
}

// amviaBuffers returns the bytes of a connection's buffers: for each kind of message as
// many sends and receives as its credits need.
func amviaBuffers(c endpoint.Credits) int {
	of := func(k, m int) int { return (4*k + 1) * m }
	return of(c.Short, 64) + of(c.Medium, 4<<10) + of(c.Bulk, 80<<10)
}
