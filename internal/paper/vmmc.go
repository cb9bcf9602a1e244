package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// leastProgram is the minimum time that the paper's control programs take for a word, in
// microseconds.
const leastProgram = 2.5

// codeOfCalls explains the column code of section 5.4.
const codeOfCalls = "Section 5.4 is measured on a model of vRPC: one message in each direction, which its receiver copies, as in the paper. The column code shows package vmmc/vrpc on the same cards, with its rings, its ONC RPC messages and its XDR. Package vmmc/vrpc is charged for a send and for the routines in the same way as the model. Its sender also copies a message, so a round trip has four copies of the argument instead of the paper's two."

// vmmcProfile lists the constants of the model, and the number that fixed each.
func vmmcProfile(m *vmmcModel) Profile {
	t, costs := m.timing, m.costs
	return Profile{"vmmc", "166 MHz Pentium, PCI, LANai 4.1 at 33 MHz, one 8-port switch", []Constant{
		fixed("clock of the card", float64(t.Clock)/1e6, "MHz", "sec3.clock_mhz", ""),
		fixed("start of a DMA", micro(t.DMASetup), "us", "sec5.2.dma_start_us", "to acquire the bus and start the transfer"),
		fixed("rate of the bus", float64(t.DMABandwidth)/1e6, "MB/s", "fig1.dma_4k", "chosen so that a page, including the start of its DMA, reaches the published bandwidth"),
		fixed("I/O read", micro(t.PIORead), "us", "sec5.2.io_read_us", ""),
		fixed("I/O write", micro(t.PIOWrite), "us", "sec5.2.io_write_us", ""),
		fixed("link", 160, "MB/s", "sec5.2.network", ""),
		fixed("program, minimum for a word", leastProgram, "us", "sec5.2.program_us", "the time of both cards' control programs in the minimum latency of the hardware. Our control program takes longer, and so does the paper's"),
		fixed("program, a send started", float64(costs.Pick+costs.Short+costs.Launch), "cycles", "sec6.start_us", "the program finds a request, checks and translates it, and starts its packet"),
		chosen("program, a word of a short request", float64(costs.Word), "cycles", "a load and a store, of two cycles each",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Word) }),
		chosen("program, a packet received", float64(costs.Receive), "cycles", "the paper does not separate it from the rest",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Receive) }),
		chosen("program, a long request taken up", float64(costs.Long), "cycles", "the paper does not separate it from the rest; assumed to be as long as for a short request",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Long) }),
		chosen("program, a chunk", float64(costs.Chunk), "cycles", "to build its header while the previous chunk is being sent",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Chunk) }),
		chosen("program, leaving the tight loop", float64(costs.Leave), "cycles", "the paper states that leaving the loop costs bandwidth, but not how long it takes",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Leave) }),
		chosen("program, an answer of a channel taken", float64(costs.Answer), "cycles", "the paper's program has no channels, and drops packets with errors, so this step costs nothing here",
			func(m *vmmcModel, by float64) { multiply(by, &m.costs.Answer) }),
		chosen("interrupt", micro(t.Interrupt), "us", "the paper has no number; the value has the order of magnitude of an interrupt on a processor of that time",
			func(m *vmmcModel, by float64) { multiply(by, &m.timing.Interrupt) }),
		fixed("host, a send", micro(m.send), "us", "fig4.synchronous_us", "in addition to the words that the host writes to the card"),
		fixed("host, a remote procedure call", micro(m.call), "us", "sec5.4.vrpc_us", "the routines of client and server, in addition to their sends and copies"),
		fixed("host, rate of long copies", m.bcopy/1e6, "MB/s", "sec5.4.bcopy", ""),
	}}
}

func vmmcPaper() *Paper {
	return &Paper{
		Name:     "vmmc",
		Title:    "Dubnicki, Bilas, Li, Philbin: Design and Implementation of Virtual Memory-Mapped Communication on Myrinet",
		Notes:    []string{"The measured programs use package vmmc with the control program from vmmc/lanai. Figure 1 and section 5.2 measure only the emulated card.", codeOfCalls},
		Profiles: []Profile{vmmcProfile(newVMMCModel())},
		Left: []Left{
			{"6", "SHRIMP: a word takes about 7 us one way, a send begins in 2 to 3 us, 23 MB/s between users", "there is no model of SHRIMP's card and EISA bus"},
			{"5.4", "vRPC on SHRIMP: a round trip of 33 us, 8 to 12 MB/s", "there is no model of SHRIMP's card and EISA bus"},
			{"7", "the Myrinet API: 63 us for 4 bytes, 30 MB/s with messages of 8 KB", "it is another program on the same card, and is not part of Bobnet"},
			{"7", "FM 2.0: 10.7 us for 8 bytes, 30 MB/s with messages of 8 KB", "it is another program on the same card, and is not part of Bobnet"},
			{"7", "PM: 7.2 us for 8 bytes, 118 MB/s in a pipeline of 8 KB units, close to 110 MB/s with 4 KB", "it is another program on the same card, and is not part of Bobnet"},
			{"5.4", "bcopy at 20 MB/s, the lower end of its range", "the model copies at one rate, the highest"},
			{"figures 1 to 4", "all points of the curves whose values the text does not state", "our copy of the paper has no drawings"},
		},
		Items: []Item{
			{Name: "sec3.clock_mhz", Place: "3", Says: "clock of the LANai", Kind: Input, On: OnConstant, Published: 33, Unit: "MHz"},
			{Name: "sec5.2.network", Place: "5.2", Says: "bandwidth of the network", Kind: Input, Published: 160, Unit: "MB/s"},
			{Name: "sec5.2.dma_start_us", Place: "5.2", Says: "time on the receive side to arbitrate for the bus and initiate the DMA", Kind: Input, On: OnConstant, Published: 2, Unit: "us"},
			{Name: "sec5.2.program_us", Place: "5.2", Says: "time to pick up a request, prepare a packet, send it and receive it", Kind: Input, On: OnConstant, Published: 2.5, Unit: "us"},
			{Name: "sec5.2.io_read_us", Place: "5.2", Says: "memory-mapped read over PCI", Kind: Input, Published: 0.422, Unit: "us"},
			{Name: "sec5.2.io_write_us", Place: "5.2", Says: "memory-mapped write over PCI", Kind: Input, Published: 0.121, Unit: "us"},
			{Name: "fig1.dma_4k", Place: "5.2, figure 1", Says: "DMA between host and LANai, 4 KB blocks", Kind: Input, Published: 110, Unit: "MB/s"},
			{Name: "fig1.dma_64k", Place: "5.2, figure 1", Says: "DMA between host and LANai, 64 KB blocks", Kind: Output, Published: 128, Unit: "MB/s"},
			{Name: "sec5.2.post_us", Place: "5.2", Says: "posting a send request: four words", Kind: Derived, Published: 0.5, Unit: "us", From: from("four writes of one word each", func(v ...float64) float64 { return 4 * v[0] }, "sec5.2.io_write_us")},
			{Name: "sec5.2.minimum_us", Place: "5.2", Says: "minimum latency of the hardware: post, program, DMA", Kind: Derived, Published: 5, Unit: "us", From: from("the sum", sum, "sec5.2.post_us", "sec5.2.program_us", "sec5.2.dma_start_us")},
			{Name: "fig2.one_word_us", Place: "5.3, figure 2", Says: "one-way latency of one word", Kind: Output, Published: 9.8, Unit: "us"},
			{Name: "fig2.thresholds", Place: "5.3, figure 2", Says: "the latency of 96 bytes with short requests of up to 64 bytes is within 15 % of the latency with short requests of up to 128 bytes", Kind: Shape},
			{Name: "fig3.one_way", Place: "5.3, figure 3", Says: "highest bandwidth, ping-pong", Kind: Output, Published: 108.4, Unit: "MB/s"},
			{Name: "sec5.3.share", Place: "5.3", Says: "highest bandwidth, as a share of the DMA bandwidth of a page", Kind: Output, Published: 98, Unit: "%", From: from("the ratio of the two bandwidths", percent, "fig3.one_way", "fig1.dma_4k")},
			{Name: "fig3.both_ways", Place: "5.3, figure 3", Says: "highest bandwidth of both senders together, when they send at the same time", Kind: Output, Published: 91, Unit: "MB/s"},
			{Name: "fig4.synchronous_us", Place: "5.3, figure 4", Says: "overhead of a synchronous short send", Kind: Input, Published: 3, Unit: "us"},
			{Name: "fig4.jump", Place: "5.3, figure 4", Says: "the overhead of a synchronous send jumps beyond 128 bytes", Kind: Shape},
			{Name: "fig4.asynchronous", Place: "5.3, figure 4", Says: "an asynchronous long send costs slightly less than a short one", Kind: Shape},
			{Name: "sec5.4.bcopy", Place: "5.4", Says: "rate of long copies in the library: the maximum of the range 20 to 50", Kind: Input, On: OnConstant, Published: 50, Unit: "MB/s"},
			{Name: "sec5.4.vrpc_us", Place: "5.4", Says: "round trip of a null procedure with vRPC; ours sends the same messages as vRPC", Kind: Input, Published: 66, Unit: "us"},
			{Name: "sec5.4.vrpc", Place: "5.4", Says: "bandwidth of vRPC, 32 to 33, measured with a procedure that returns its argument", Kind: Output, Published: 32.5, Unit: "MB/s"},
			{Name: "sec6.start_us", Place: "6", Says: "time to begin a send in software: at least twice 2 to 3 us; the value is the minimum", Kind: Input, On: OnConstant, Published: 4, Unit: "us"},
		},
		Experiments: []Experiment{
			{"figure 1 and section 5.2", []string{
				"sec3.clock_mhz", "sec5.2.network", "sec5.2.dma_start_us", "sec5.2.program_us", "sec5.2.io_read_us", "sec5.2.io_write_us",
				"fig1.dma_4k", "fig1.dma_64k", "sec6.start_us",
			}, OnCode, onModel(repeatHardware)},
			{"figure 2", []string{"fig2.one_word_us", "fig2.thresholds"}, OnCode, onModel(repeatLatency)},
			{"figure 3", []string{"fig3.one_way", "fig3.both_ways"}, OnCode, onModel(repeatRates)},
			{"figure 4", []string{"fig4.synchronous_us", "fig4.jump", "fig4.asynchronous"}, OnCode, onModel(repeatOverheads)},
			{"section 5.4", []string{"sec5.4.bcopy", "sec5.4.vrpc_us", "sec5.4.vrpc"}, OnModel, onModel(repeatCalls)},
		},
		Figures: []string{"vmmc-figure1", "vmmc-figure2", "vmmc-figure3", "vmmc-figure4", "vmmc-calls"},
	}
}

// dmaSizes are the block sizes of figure 1.
var dmaSizes = []int{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536}

// onModel returns an experiment that runs on the paper's hardware.
func onModel(run func(*Bench, *vmmcModel) error) func(*Bench) error {
	return func(b *Bench) error { return run(b, modelOf(b, newVMMCModel())) }
}

// repeatHardware measures the card without a protocol.
func repeatHardware(b *Bench, m *vmmcModel) error {
	timing := m.timing
	c, err := newCardBench(timing)
	if err != nil {
		return err
	}
	ours := plot.Series{Name: "ours"}
	rates := map[int]float64{}
	for _, n := range dmaSizes {
		rate, err := c.dma(n)
		if err != nil {
			return err
		}
		rates[n] = rate / 1e6
		ours.Points = append(ours.Points, plot.Point{X: float64(n), Value: rates[n]})
	}
	network, err := c.link(1 << 16)
	if err != nil {
		return err
	}
	write, read, err := c.words()
	if err != nil {
		return err
	}
	b.Set("sec3.clock_mhz", float64(timing.Clock)/1e6)
	b.Set("sec5.2.network", network/1e6)
	b.Set("sec5.2.dma_start_us", micro(timing.DMASetup))
	b.Set("sec5.2.program_us", leastProgram)
	b.Set("sec5.2.io_read_us", micro(read))
	b.Set("sec5.2.io_write_us", micro(write))
	b.Set("fig1.dma_4k", rates[4096])
	b.Set("fig1.dma_64k", rates[65_536])
	b.Set("sec6.start_us", float64(m.costs.Pick+m.costs.Short+m.costs.Launch)/float64(timing.Clock)*1e6)
	b.Draw(Figure{"vmmc-figure1", "Bandwidth of DMA between the host and the LANai", []plot.Panel{{
		Title: "DMA between host and LANai", Y: "MB/s",
		Series: []plot.Series{ours, {Name: "paper", Published: true, Of: "ours", Points: []plot.Point{{X: 4096, Value: 110}, {X: 65_536, Value: 128}}}},
	}}})
	return nil
}

// micro returns a duration in microseconds.
func micro(d time.Duration) float64 { return float64(d) / 1e3 }
