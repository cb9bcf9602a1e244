package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// vmmcProfile lists what timing says, and which number has fixed it.
func vmmcProfile(t *myrinet.Timing) Profile {
	costs := lanai.DefaultCosts()
	return Profile{"vmmc", "Pentium of 166 MHz, PCI, LANai 4.1 at 33 MHz, one switch of 8 ports", []Constant{
		{"clock of the card", float64(t.Clock) / 1e6, "MHz", "sec3.clock_mhz", ""},
		{"start of a DMA", t.DMASetup.Seconds() * 1e6, "us", "sec5.2.dma_start_us", "to get the bus and begin"},
		{"rate of the bus", float64(t.DMABandwidth) / 1e6, "MB/s", "fig1.dma_4k", "with the start of a DMA, so that a page gets this bandwidth"},
		{"I/O read", t.PIORead.Seconds() * 1e6, "us", "sec5.2.io_read_us", ""},
		{"I/O write", t.PIOWrite.Seconds() * 1e6, "us", "sec5.2.io_write_us", ""},
		{"link", 160, "MB/s", "sec5.2.network", ""},
		{"program, a word", 2.5, "us", "sec5.2.program_us", "of the control programs of both cards"},
		{"steps of the control program, a word", float64(costs.Pick + costs.Short + costs.Launch + costs.Receive), "cycles", "", "the paper times no step; to begin a send takes what section 6 says of one in software"},
		{"interrupt", t.Interrupt.Seconds() * 1e6, "us", "", "the paper has no number; of the order of what a processor of that time needs"},
	}}
}

const noCalls = "not measured: no experiment makes remote procedure calls"

func vmmcPaper() *Paper {
	return &Paper{
		Name:     "vmmc",
		Title:    "Dubnicki, Bilas, Li, Philbin: Design and Implementation of Virtual Memory-Mapped Communication on Myrinet",
		Profiles: []Profile{vmmcProfile(myrinet.PCITiming())},
		Items: []Item{
			{Name: "sec3.clock_mhz", Place: "3", Says: "clock of the LANai", Kind: Input, Published: 33, Unit: "MHz"},
			{Name: "sec5.2.network", Place: "5.2", Says: "bandwidth of the network", Kind: Input, Published: 160, Unit: "MB/s"},
			{Name: "sec5.2.dma_start_us", Place: "5.2", Says: "on the receive side: arbitrate for the bus, initiate the DMA", Kind: Input, Published: 2, Unit: "us"},
			{Name: "sec5.2.program_us", Place: "5.2", Says: "pick up a request, prepare a packet, send and receive it", Kind: Input, Published: 2.5, Unit: "us"},
			{Name: "sec5.2.io_read_us", Place: "5.2", Says: "memory-mapped read over PCI", Kind: Input, Published: 0.422, Unit: "us"},
			{Name: "sec5.2.io_write_us", Place: "5.2", Says: "memory-mapped write over PCI", Kind: Input, Published: 0.121, Unit: "us"},
			{Name: "fig1.dma_4k", Place: "5.2, figure 1", Says: "DMA between host and LANai, blocks of 4 KB", Kind: Input, Published: 110, Unit: "MB/s"},
			{Name: "fig1.dma_64k", Place: "5.2, figure 1", Says: "the same, blocks of 64 KB", Kind: Output, Published: 128, Unit: "MB/s"},
			{Name: "sec5.2.post_us", Place: "5.2", Says: "posting a send request: four words", Kind: Derived, Published: 0.5, Unit: "us"},
			{Name: "sec5.2.minimum_us", Place: "5.2", Says: "minimum latency of the hardware: post, program, DMA", Kind: Derived, Published: 5, Unit: "us"},
			{Name: "fig2.one_word_us", Place: "5.3, figure 2", Says: "one-way latency of a word", Kind: Output, Published: 9.8, Unit: "us"},
			{Name: "fig2.thresholds", Place: "5.3, figure 2", Says: "with short requests up to 64 octets the latency is within 15 % of that with up to 128: of 96 octets", Kind: Shape,
				Why: "the card takes longer here to begin a long request and its DMA than the host to write 96 octets"},
			{Name: "fig3.one_way", Place: "5.3, figure 3", Says: "highest bandwidth, ping-pong", Kind: Output, Published: 108.4, Unit: "MB/s"},
			{Name: "fig3.both_ways", Place: "5.3, figure 3", Says: "highest bandwidth of both senders at the same time", Kind: Output, Published: 91, Unit: "MB/s"},
			{Name: "fig4.synchronous_us", Place: "5.3, figure 4", Says: "overhead of a synchronous short send", Kind: Output, Published: 3, Unit: "us",
				Why: "the host's writes to the card are all that it costs here: what its processor does besides takes no time in the model"},
			{Name: "fig4.jump", Place: "5.3, figure 4", Says: "it jumps beyond 128 octets", Kind: Shape},
			{Name: "fig4.asynchronous", Place: "5.3, figure 4", Says: "an asynchronous long send costs slightly less than a short one", Kind: Shape},
			{Name: "sec5.4.vrpc_us", Place: "5.4", Says: "round trip of a null procedure, vRPC", Kind: Output, Published: 66, Unit: "us", Why: noCalls},
			{Name: "sec5.4.vrpc", Place: "5.4", Says: "bandwidth of vRPC, 32 to 33", Kind: Output, Published: 32.5, Unit: "MB/s", Why: noCalls},
		},
		Experiments: []Experiment{
			{"figure 1 and section 5.2", []string{
				"sec3.clock_mhz", "sec5.2.network", "sec5.2.dma_start_us", "sec5.2.program_us", "sec5.2.io_read_us", "sec5.2.io_write_us",
				"fig1.dma_4k", "fig1.dma_64k", "sec5.2.post_us", "sec5.2.minimum_us",
			}, func(b *Bench) error { return repeatHardware(b, myrinet.PCITiming()) }},
			{"figure 2", []string{"fig2.one_word_us", "fig2.thresholds"}, repeatLatency},
			{"figure 3", []string{"fig3.one_way", "fig3.both_ways"}, repeatRates},
			{"figure 4", []string{"fig4.synchronous_us", "fig4.jump", "fig4.asynchronous"}, repeatOverheads},
		},
		Figures: []string{"vmmc-figure1", "vmmc-figure2", "vmmc-figure3", "vmmc-figure4"},
	}
}

// dmaSizes are the blocks of figure 1.
var dmaSizes = []int{64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536}

// repeatHardware measures the card without a protocol.
func repeatHardware(b *Bench, timing *myrinet.Timing) error {
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
	const requestWords, program = 4, 2.5
	post, start := requestWords*micro(write), micro(timing.DMASetup)
	b.Set("sec3.clock_mhz", float64(timing.Clock)/1e6)
	b.Set("sec5.2.network", network/1e6)
	b.Set("sec5.2.dma_start_us", start)
	b.Set("sec5.2.program_us", program)
	b.Set("sec5.2.io_read_us", micro(read))
	b.Set("sec5.2.io_write_us", micro(write))
	b.Set("fig1.dma_4k", rates[4096])
	b.Set("fig1.dma_64k", rates[65_536])
	b.Set("sec5.2.post_us", post)
	b.Set("sec5.2.minimum_us", post+program+start)
	b.Draw(Figure{"vmmc-figure1", "Bandwidth of DMA between the host and the LANai", []plot.Panel{{
		Title: "DMA between host and LANai", Y: "MB/s",
		Series: []plot.Series{ours, {Name: "paper", Points: []plot.Point{{X: 4096, Value: 110}, {X: 65_536, Value: 128}}}},
	}}})
	return nil
}

// micro returns a duration in microseconds.
func micro(d time.Duration) float64 { return float64(d) / 1e3 }
