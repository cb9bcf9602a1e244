package paper

import "github.com/bobnet-go/bobnet/endpoint"

const (
	layersAreModels = "**This section does not measure package splitc, except in shared memory.** The layers over VIA are models: internal/paper/vialayers.go sends a message for each request and for each answer, as the paper's layers do. Package splitc puts several requests or answers into one message. The models run on a VIA control program that exists only in internal/paper (viacard.go). The smallest message of the layers over VIA is 12 bytes instead of the paper's 4. The applications are skeletons (internal/paper/skeleton), which send the messages of the programs under examples, and replace computation by a constant time. On the NOW the skeletons' requests are messages of package endpoint over AM-II's control program."
	codeIsBeside    = "The column code shows package splitc itself. Its layers am, reliable and unreliable run over VIs of package vipl, on cards of this profile that carry frames (internal/myrinet/plain). Its layer am also runs on the NOW's cards. Each process is charged o_s for a frame that it sends and o_r for a frame that it receives. No process is charged for AMVIA's poll routine, which belongs to other code. The time of a store includes its arrival. Package splitc puts several gets, puts and stores into a frame, so these operations take a fraction of their time over the paper's layers. The NOW's layer sends a message for each operation, and is slower than the layers over VIs. The applications of figure 6-5 have no value in this column, because the applications under examples compute with values."
	nowRatio        = "the Split-C paper gives a ratio of 3, which implies about 18 us (a third of 53 us) for AM on the NOW. Our model takes 21 us, as the AM-II paper reports (section am2), so our ratio is 2.5"
	sharedMemory    = "measured on the machine that runs the command, with the layer shm of package splitc, because virtual time has no model of a processor's loads and stores"
	anomaly         = "the model does not repeat one result of the paper. On one processor, ray tracing is 54 % faster over AMVIA; the paper calls this an anomaly"
	nowScales       = "our 3D FFT scales further. The paper suspects too little bandwidth across the network. But our 3D FFT scales equally well with hosts from all three sub-clusters of the NOW, which 11 cables join. It also scales equally well when all processors send to the same processor first, or 4 KB at a time"
	nowCG           = "our conjugate gradient scales further. The authors do not know why their version performed so badly"
	sharedCard      = "two processes that share a card ring twice as many of its doorbells, and send twice as many messages. If the card's program took no time, 16 processors would be slower by 3 %, not by a third. The transpose is a separate step, in which a rank stores all rows for one rank, then all rows for the next rank. If a rank instead stores each plane's rows to all ranks before the next plane, 3D FFT is 1 % faster on 4 processors, and slower on 8 and 16"
	fewOperations   = "with 4 cycles for an arithmetic operation, Cholesky over AMVIA is slower on 8 processors than on 4. One processor has a whole column and sends this column to all others. On 8 processors the sends take longer than on 4, while the computation takes half as long"
	nowProcessors   = "the result depends on the speed of both machines' processors. With equal cycles for an operation, the Millennium's processors are 2.4 times as fast, and the statement does not hold"
	nearlyCG        = "conjugate gradient over unreliable VIA, the Millennium's fastest layer, is 3 % faster than on the NOW. If the NOW's processors are 0.7 instead of 0.65 times as fast as the Millennium's, conjugate gradient is faster on the NOW, too. If they are 0.6 times as fast, Cholesky is not faster on the NOW"
	lessThanAMVIA   = "the share of the two times above, of AMVIA's poll routine and of the recycling of a send descriptor: 7.5 us and 13.5 us. The paper states that these layers marshal and dispatch less, but not how much less"
	recyclingTakes  = "the paper states that marshalling and the recycling of send descriptors add a factor that the times of neither stream contain, but not how large the factor is. The gap determines it"
)

// millenniumProfile lists the constants of the model, and the number that fixed each.
func millenniumProfile(m *viaModel) Profile {
	t := m.timing
	return Profile{"millennium", "two-way 400 MHz Pentium II, Linux 2.2.1, Myrinet, VIA implemented by a control program that scans doorbells", []Constant{
		chosen("program, a doorbell checked", float64(m.costs.Look), "cycles", "a load, a comparison, a branch and the rest of a loop. The program looks at the send doorbells of all VIs in turn; AMVIA has three of them for each connection",
			func(m *viaModel, by float64) { multiply(by, &m.costs.Look) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("program, a message sent", float64(m.costs.Send), "cycles", "fig6-2.plateau_us", "the published time minus the looks at three doorbells, the DMA of descriptor, data and status, and the link"),
		fixed("program, a packet received", float64(m.costs.Receive), "cycles", "sec6.1.via_us", "the rest of the one-way time. As in the paper, the program serves packets between doorbells, and fetches the posted receive when a packet arrives"),
		fixed("host, a message sent", micro(m.send), "us", "table6-1.o_s_us", "in addition to the word that the host writes to the card"),
		fixed("host, a message received", micro(m.receive), "us", "table6-1.o_r_us", ""),
		fixed("host, AMVIA's poll routine", micro(m.poll), "us", "sec6.1.amvia_adds_us", "the paper attributes all that AMVIA adds to this routine: completion queue, VI, descriptor, marshalling, dispatch. It is charged once for the request and the reply that a call handles"),
		fixed("host, a send descriptor recycled", micro(m.recycle), "us", "table6-1.g_us", recyclingTakes+". Each poll takes back one descriptor, as in the paper"),
		chosen("host, layers over VIA", m.lean, "times", lessThanAMVIA,
			func(m *viaModel, by float64) { m.lean *= by }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("host, rate of copies", m.memory/1e6, "MB/s", "sec6.1.amvia_mbps", "includes all other host time for a medium message, which the paper does not separate from the copy"),
		stated("credits, short messages", float64(m.credits[viaShort]), "messages", "in section 7.2, and in figure 6-2"),
		stated("credits, medium messages", float64(m.credits[viaMedium]), "messages", "in section 7.2"),
		chosen("clock of the card", float64(t.Clock)/1e6, "MHz", "the paper has no number. This value and the following ones are those of PCI in the VMMC paper",
			func(m *viaModel, by float64) { multiply(by, &m.timing.Clock) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("start of a DMA", micro(t.DMASetup), "us", "like the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.DMASetup) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("rate of the bus", float64(t.DMABandwidth)/1e6, "MB/s", "like the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.DMABandwidth) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("I/O write", micro(t.PIOWrite), "us", "like the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.PIOWrite) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("I/O read", micro(t.PIORead), "us", "like the clock of the card; the host of the models reads nothing from the card",
			func(m *viaModel, by float64) { multiply(by, &m.timing.PIORead) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("interrupt", micro(t.Interrupt), "us", "like the clock of the card; no process of the models waits for an interrupt",
			func(m *viaModel, by float64) { multiply(by, &m.timing.Interrupt) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		chosen("link", float64(m.fabric.Bandwidth)/1e6, "MB/s", "like the clock of the card",
			func(m *viaModel, by float64) { multiply(by, &m.fabric.Bandwidth) }).of("AMVIA", "figure 6-3", "figure 6-4"),
		fixed("clock of the host's processor", m.clock/1e6, "MHz", "abstract.clock_mhz", ""),
		chosen("applications, an arithmetic operation", m.operation, "cycles", "80 million operations a second. The paper does not state how long applications compute. The programs are skeletons of the programs under examples. They send the same messages without values (3D FFT in a separate step), and spend this time instead of computing",
			func(m *viaModel, by float64) { m.operation *= by }).of("figure 6-5"),
		chosen("applications, speed of the NOW's processor", m.now, "times", "relative to the Millennium's processor. The value is a little less than the ratio of SPECfp95 for a 167 MHz UltraSPARC (9) and a 400 MHz Pentium II (12 to 13), because the ratio of SPECint95 is 0.4. The NOW's cards and programs are those of profile now",
			func(m *viaModel, by float64) { m.now *= by }).of("figure 6-5"),
		chosen("applications, a store in shared memory", micro(m.store), "us", "the paper states less than 0.4 us",
			func(m *viaModel, by float64) { multiply(by, &m.store) }).of("figure 6-5"),
		chosen("applications, rate of such stores", m.storeRate/1e6, "MB/s", "the order of magnitude of such a processor's copies",
			func(m *viaModel, by float64) { m.storeRate *= by }).of("figure 6-5"),
		chosen("EM3D, neighbours of a particle", float64(m.em3d.Degree), "particles", "the paper does not state it. The value is that of other graphs of Split-C's authors. Each value is a separate store. The program runs 2 steps, because all steps are alike",
			func(m *viaModel, by float64) { multiply(by, &m.em3d.Degree) }).of("figure 6-5"),
		chosen("conjugate gradient, elements of a row", float64(m.cg.Row+1), "elements", "the paper does not state it. The value is that of examples/cg. The program runs 10 steps, because all steps are alike",
			func(m *viaModel, by float64) { multiply(by, &m.cg.Row) }).of("figure 6-5"),
		chosen("ray tracing, a pixel", float64(m.teapot.Pixel), "operations", "four times as many where the teapot is. The image has 240 x 180 pixels, in tiles of 16 x 16; the paper states no size",
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
			{"6.3", "ray tracing over AMVIA is 54 % faster on one processor than over reliable and unreliable VIA", "the paper calls this an anomaly. In the model, one processor computes at the same speed over all layers"},
			{"6.3, figure 6-5", "all speeds", "the text compares them without numbers"},
			{"7.2", "80 KB bulk messages", "the models have only the messages that Split-C's layers use, which are short or medium"},
			{"6.2", "the mean of 10,000 primitives", "our value is the mean of 640 primitives, or of 100 blocking primitives"},
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
		{Name: "fig6-2.plateau_us", Place: "6.1, figure 6-2", Says: "time between the requests of a burst: a process waits for the card to look at a doorbell", Kind: Input, Published: 15, Unit: "us"},
		{Name: "sec6.1.via_us", Place: am, Says: "one-way time of VIA: 53 minus 15", Kind: Input, Published: 38, Unit: "us"},
		{Name: "table6-1.o_s_us", Place: logp, Says: "AMVIA, send overhead", Kind: Input, Published: 3, Unit: "us"},
		{Name: "table6-1.o_r_us", Place: logp, Says: "AMVIA, receive overhead", Kind: Input, On: OnConstant, Published: 5, Unit: "us"},
		{Name: "sec6.1.amvia_adds_us", Place: am, Says: "time that AMVIA adds to VIA, one way", Kind: Input, Published: 15, Unit: "us"},
		{Name: "sec6.1.amvia_mbps", Place: am, Says: "AMVIA, bandwidth of a stream of 4 KB messages", Kind: Input, Published: 172, Unit: "Mb/s"},
		{Name: "sec6.1.amvia_us", Place: am, Says: "one-way time of AMVIA", Kind: Derived, Published: 53, Unit: "us", From: from("the sum", sum, "sec6.1.via_us", "sec6.1.amvia_adds_us")},
		{Name: "sec6.1.of_now", Place: am, Says: "one-way time of AMVIA, divided by the one-way time of AM on the NOW", Kind: Derived, Published: 3, Unit: "times", Why: nowRatio, From: from("the one-way time of AMVIA, divided by half of am2's fig5.rtt_us: 53 us and 21 us", nil, "sec6.1.amvia_us")},
		{Name: "sec6.1.of_via", Place: am, Says: "the bandwidth of AMVIA's stream is less than half of the bandwidth of VIA's stream", Kind: Shape},
		{Name: "table6-1.l_us", Place: logp, Says: "AMVIA, latency", Kind: Derived, Published: 45, Unit: "us", From: from("the one-way time without the overheads", func(v ...float64) float64 { return v[0] - v[1] - v[2] }, "sec6.1.amvia_us", "table6-1.o_s_us", "table6-1.o_r_us")},
		{Name: "table6-1.g_us", Place: logp, Says: "AMVIA, gap", Kind: Input, Published: 50, Unit: "us"},
		{Name: "fig6-2.knee", Place: "6.1, figure 6-2", Says: "the burst above which the time per message rises to the gap", Kind: Output, Published: 64, Unit: "requests"},
		{Name: "sec7.2.buffers_kb", Place: buffers, Says: "buffers of a connection: (4k+1)M bytes for each VI, with k credits and messages of M bytes; M is 64 B, 4 KB and 80 KB", Kind: Derived, On: OnNumbers, Published: 540, Unit: "KB", From: from("computed from the paper's credits and message sizes", nil)},
		{Name: "sec7.2.one_vi", Place: buffers, Says: "with one VI and 32 credits, the buffers of a connection are more than 10 MB", Kind: Shape, On: OnNumbers},
		{Name: "fig6-3.stores_reliable", Place: primitives, Says: "rate of stores, divided by the rate of gets and puts, over reliable VIA", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.stores_unreliable", Place: primitives, Says: "rate of stores, divided by the rate of gets and puts, over unreliable VIA", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_read", Place: primitives, Says: "time of a read when both processes send, divided by its time when one process sends; like the next four rows, the mean of the three layers over VIA", Kind: Output, Published: 1, Unit: "times"},
		{Name: "fig6-3.both_write", Place: primitives, Says: "the same ratio for a write", Kind: Output, Published: 1, Unit: "times"},
		{Name: "fig6-3.both_get", Place: primitives, Says: "the same ratio for a get", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_put", Place: primitives, Says: "the same ratio for a put", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.both_store", Place: primitives, Says: "the same ratio for a store", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-3.now", Place: primitives, Says: "the NOW is faster than all layers over VIA, in all primitives", Kind: Shape},
		{Name: "fig6-3.overhead", Place: "6.3", Says: "stores favour reliable and unreliable VIA: stores are faster over these layers than over AMVIA, and gain more than gets and puts", Kind: Shape},
		{Name: "fig6-3.shared", Place: primitives, Says: "any primitive in shared memory takes less than 0.4 us", Kind: Shape, Why: sharedMemory},
		{Name: "fig6-4.small", Place: bulk, Says: "gets of 4 bytes take twice as long when both processes send", Kind: Output, Published: 2, Unit: "times"},
		{Name: "fig6-4.large", Place: bulk, Says: "the difference is smaller for gets of 4 KB", Kind: Shape},
		{Name: "abstract.clock_mhz", Place: "abstract", Says: "clock of the processors", Kind: Input, On: OnConstant, Published: 400, Unit: "MHz"},
		{Name: "fig6-5.unreliable", Place: apps, Says: "unreliable VIA has the best overall performance, slightly ahead of reliable VIA: in the geometric mean of all speeds, by less than 10 %", Kind: Shape},
		{Name: "fig6-5.raytrace", Place: apps, Says: "ray tracing has the best speed-up on 16 processors, over each layer and on the NOW", Kind: Shape, Why: anomaly},
		{Name: "fig6-5.poor", Place: apps, Says: "conjugate gradient and EM3D scale poorly: they use less than half of 16 processors, over each layer and on the NOW", Kind: Shape},
		{Name: "fig6-5.stores", Place: apps, Says: "conjugate gradient and EM3D use stores, so they are faster over reliable and unreliable VIA than over AMVIA", Kind: Shape},
		{Name: "fig6-5.fft3d_now", Place: apps, Says: "3D FFT on the NOW fails to scale past 8 processors: on 16 processors it is less than a tenth faster", Kind: Shape, Why: nowScales},
		{Name: "fig6-5.fft3d_shared", Place: apps, Says: "3D FFT is slower with shared memory than without, on more than two processors (two processors need no card)", Kind: Shape, Why: sharedCard},
		{Name: "fig6-5.cg_now", Place: apps, Says: "conjugate gradient performs terribly on the NOW beyond two processors: it is slower on 16 processors than on two", Kind: Shape, Why: nowCG},
		{Name: "fig6-5.cholesky", Place: apps, Says: "Cholesky scales reasonably past two processors: over each layer it is faster with each doubling", Kind: Shape, Why: fewOperations},
		{Name: "fig6-5.cholesky_shared", Place: apps, Says: "Cholesky scales linearly with two processors that share memory: it is at least 1.8 times as fast", Kind: Shape},
		{Name: "fig6-5.cholesky_now", Place: apps, Says: "Cholesky on 16 processors is faster on the NOW than on the Millennium", Kind: Shape, Why: nowProcessors},
		{Name: "fig6-5.only_cholesky_now", Place: apps, Says: "no application except Cholesky is faster on 16 processors of the NOW than on the Millennium", Kind: Shape, Why: nearlyCG},
	}
}

// amviaBuffers returns the bytes of a connection's buffers: for each kind of message as
// many sends and receives as its credits need.
func amviaBuffers(c endpoint.Credits) int {
	of := func(k, m int) int { return (4*k + 1) * m }
	return of(c.Short, 64) + of(c.Medium, 4<<10) + of(c.Bulk, 80<<10)
}
