package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// nowConfig is a card of the NOW with AM-II's control program. A host that waits looks at
// the card all the time, as in the paper's measurements.
func nowConfig() lanai.Config {
	t := myrinet.SBusTiming()
	t.PIOWrite, t.PIORead, t.DMAFetch, t.DMABandwidth = 256, 181, 45_400_000, 107_500_000
	return lanai.Config{
		Card: myrinet.CardConfig{Timing: t}, Spin: true,
		Frames: 8, Attempts: 1 << 8, Residence: 32 * time.Millisecond,
		Channels: channels.Config{Channels: 4, Timeout: int64(16 * time.Millisecond), Scan: int64(4 * time.Millisecond), Tries: 255},
		Costs:    lanai.Costs{Send: 229, Header: 98, Loiter: 2, Receive: 128, Bind: 21, Arrive: 21, Answer: 15, Answered: 15, Check: 42},
	}
}

// consistentFetch is the rate of consistent DMA from the host, in octets per second.
const consistentFetch = 29_500_000

// consistent has the card fetch by consistent DMA.
func consistent(cfg lanai.Config) lanai.Config {
	t := *cfg.Card.Timing
	t.DMAFetch = consistentFetch
	cfg.Card.Timing = &t
	return cfg
}

// gamConfig is the same card with the program that the paper compares: no virtual networks,
// no error model, and the next message is fetched while one leaves.
func gamConfig() lanai.Config {
	c := nowConfig()
	c.Unreliable, c.Unprotected, c.Unnamed, c.Pipelined = true, true, true, true
	return c
}

// amModel is the NOW with both programs.
type amModel struct{ now, gam lanai.Config }

// onNOW has an experiment run on the paper's hardware.
func onNOW(run func(*Bench, *amModel) error) func(*Bench) error {
	return func(b *Bench) error { return run(b, &amModel{nowConfig(), gamConfig()}) }
}

func nowProfile() Profile {
	c := nowConfig()
	t, costs, channels := c.Card.Timing, c.Costs, c.Channels
	return Profile{"now", "UltraSPARC of 167 MHz, SBus, LANai 4.1 at 37.5 MHz; 40 switches of 8 ports", []Constant{
		{"clock of the card", float64(t.Clock) / 1e6, "MHz", "sec3.4.clock_mhz", ""},
		{"link", 160, "MB/s", "sec3.4.link", "of 10^6 octets"},
		{"I/O write", micro(t.PIOWrite), "us", "fig5.o_s_us", "a word; a request writes 16, GAM's 9: it names no endpoint, and has no tags"},
		{"I/O read", micro(t.PIORead), "us", "fig5.o_r_us", "a word; a reply is 18 of them, GAM's 11, and 4 writes; it is less than a write because the processor's reads of several words at a time are not modelled"},
		{"program, a message sent and received", float64(costs.Send + costs.Receive), "cycles", "fig5.l_base_us", "by both cards"},
		{"program, of these to receive a packet", float64(costs.Receive), "cycles", "fig5.g_reliability_us", "which an ACK costs, too"},
		{"program, of these a private header", float64(2 * costs.Header), "cycles", "fig5.gam_rtt_us", "half at each end: the paper says that GAM has none, and not what it costs; what the host saves is counted in words"},
		{"program, a channel looked up", float64(costs.Bind), "cycles", "fig5.l_reliability_us", "at each end"},
		{"program, a tag checked", float64(costs.Check), "cycles", "fig5.l_protection_us", ""},
		{"program, an ACK made, and taken", float64(costs.Answer), "cycles", "", "each; the paper does not tell them from the rest of reliability"},
		{"program, an attempt to send in vain", float64(costs.Loiter), "cycles", "", "loitering: the paper has no number; the least, a word that is looked at. With 5 a server with 4 to 7 virtual networks is 12 % below its peak, of which the paper says within 11 %"},
		{"attempts of a turn", float64(c.Attempts), "attempts", "", "as the paper has it, 2^8"},
		{"endpoint frames", float64(c.Frames), "frames", "", "as the paper has it: 7, and a privileged one"},
		{"channels", float64(channels.Channels), "channels", "", "from card to card: as many as the paper's K_user, the least that it allows"},
		{"time-out", float64(channels.Timeout) / 1e6, "ms", "", "the paper has no number; with 255 tries a message comes back after several seconds, as it says"},
		{"scan", float64(channels.Scan) / 1e6, "ms", "", "between two looks for time-outs; the paper has no number; a quarter of one"},
		{"tries", float64(channels.Tries), "tries", "", "as the paper has it"},
		{"residence", float64(c.Residence) / 1e6, "ms", "", "that an endpoint has its frame at least when others want it; the paper has no number; two time-outs, so that what came too early is tried again while it is there"},
		{"residence of senders", 4, "times", "", "as long while an endpoint has something to send: the paper says nothing; or two cards whose endpoints take turns would miss each other"},
		{"requests under way", amUnderWay, "requests", "", "of each client in figures 7, 8, 10 and 11 and for the bandwidths of table 1: as the paper has it, K_user"},
		{"bus, from the host", float64(t.DMAFetch) / 1e6, "MB/s", "fig6.streaming_4k", "of 10^6 octets; streaming DMA. The host's call that flushes the stream buffer takes no time here: the paper does not say how long it takes"},
		{"bus, from the host, consistent", consistentFetch / 1e6, "MB/s", "fig6.consistent_8k", ""},
		{"bus, to the host", float64(t.DMABandwidth) / 1e6, "MB/s", "sec4.2.rtt_8k_us", "what is left of the round trip when the message has been fetched and has passed the link"},
		{"start of a DMA", micro(t.DMASetup), "us", "", "the paper has no number; that of the VMMC paper's PCI"},
		{"interrupt", micro(t.Interrupt), "us", "", "the paper has no number; of the order of what a processor of that time needs"},
	}}
}
