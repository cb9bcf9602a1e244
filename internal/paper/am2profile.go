package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// nowConfig is the configuration of a card of the NOW with AM-II's control program. A waiting host
// polls the card continuously, as in the paper's measurements.
func nowConfig() amConfig {
	t := myrinet.SBusTiming()
	t.PIOWrite, t.PIORead, t.DMAFetch, t.DMABandwidth = 256, 181, 45_400_000, 107_500_000
	return amConfig{fabric: nowFabric(), wake: 15 * time.Microsecond, Config: lanai.Config{
		Card: myrinet.CardConfig{Timing: t}, Spin: true,
		Frames: 8, Attempts: 1 << 8, Residence: 32 * time.Millisecond, SendersStay: 4,
		Channels: channels.Config{Channels: 4, Timeout: int64(16 * time.Millisecond), Scan: int64(4 * time.Millisecond), Tries: 255},
		Costs:    lanai.Costs{Send: 229, Header: 98, Loiter: 2, Receive: 128, Bind: 21, Arrive: 21, Answer: 15, Answered: 15, Check: 42},
	}}
}

// nowFabric is the switches and cables of the NOW.
func nowFabric() myrinet.Options {
	return myrinet.Options{CutThrough: 300 * time.Nanosecond, Cable: 25 * time.Nanosecond, Slack: 128, Timeout: 50 * time.Millisecond}
}

// consistentFetch is the rate of consistent DMA from the host, in bytes per second.
const consistentFetch = 29_500_000

// consistent makes the card fetch with consistent DMA.
func consistent(cfg amConfig) amConfig {
	t := *cfg.Card.Timing
	t.DMAFetch = consistentFetch
	cfg.Card.Timing = &t
	return cfg
}

// gamConfig is the same card with the program of the paper's comparison, GAM: it has no virtual
// networks and no error model, and fetches the next message while it sends one.
func gamConfig() amConfig {
	c := nowConfig()
	c.Unreliable, c.Unprotected, c.Unnamed, c.Pipelined = true, true, true, true
	return c
}

// amConfig is a card of the NOW, and the switches and cables between such cards.
type amConfig struct {
	lanai.Config
	fabric myrinet.Options
	wake   time.Duration // of the host's processor, from the post of a semaphore to its thread
}

// amModel is the NOW with both programs.
type amModel struct{ now, gam amConfig }

func newAMModel() *amModel { return &amModel{nowConfig(), gamConfig()} }

// each changes the configurations of both programs.
func (m *amModel) each(change func(c *amConfig)) {
	change(&m.now)
	change(&m.gam)
}

// onNOW returns an experiment that runs on the paper's hardware.
func onNOW(run func(*Bench, *amModel) error) func(*Bench) error {
	return func(b *Bench) error { return run(b, modelOf(b, newAMModel())) }
}

// ofNOW returns a choice of the NOW's constants.
func ofNOW(name string, value float64, unit, why string, scale func(c *amConfig, by float64)) Constant {
	return chosen(name, value, unit, why, func(m *amModel, by float64) {
		m.each(func(c *amConfig) { scale(c, by) })
	})
}

func nowProfile() Profile {
	c := nowConfig()
	t, costs, channels, f := c.Card.Timing, c.Costs, c.Channels, c.fabric
	return Profile{"now", "167 MHz UltraSPARC, SBus, LANai 4.1 at 37.5 MHz; forty 8-port switches", []Constant{
		fixed("clock of the card", float64(t.Clock)/1e6, "MHz", "sec3.4.clock_mhz", ""),
		fixed("link", 160, "MB/s", "sec3.4.link", "1 MB is 10^6 bytes here"),
		fixed("I/O write", micro(t.PIOWrite), "us", "fig5.o_s_us", "for each word. A request of AM-II writes 16 words. A request of GAM writes 9 words, because it names no endpoint and has no tags"),
		fixed("I/O read", micro(t.PIORead), "us", "fig5.o_r_us", "for each word. A reply takes 18 reads (11 with GAM) and 4 writes. A read is shorter than a write because the model does not include the processor's reads of several words at a time"),
		fixed("program, a message sent and received", float64(costs.Send+costs.Receive), "cycles", "fig5.l_base_us", "the sum over both cards"),
		fixed("program, of these to receive a packet", float64(costs.Receive), "cycles", "fig5.g_reliability_us", "receiving an ACK takes the same time"),
		fixed("program, of these a private header", float64(2*costs.Header), "cycles", "fig5.gam_rtt_us", "half at each end. The paper states that GAM has no private header, but not how long the header takes. The host's saving is counted in words"),
		fixed("program, a channel looked up", float64(costs.Bind), "cycles", "fig5.l_reliability_us", "at each end"),
		fixed("program, a tag checked", float64(costs.Check), "cycles", "fig5.l_protection_us", ""),
		ofNOW("program, an ACK built or processed", float64(costs.Answer), "cycles", "for each of the two steps; the paper does not separate them from the rest of reliability",
			func(c *amConfig, by float64) { multiply(by, &c.Costs.Answer, &c.Costs.Answered) }).of("figure 5", "figure 10"),
		ofNOW("program, a failed attempt to send", float64(costs.Loiter), "cycles", "the paper calls this loitering, and has no number. The value is the minimum: the program looks at one word. With 5 cycles, a server with 4 to 7 virtual networks is 12 % below its peak; the paper states that the server is within 11 %",
			func(c *amConfig, by float64) { multiply(by, &c.Costs.Loiter) }).of("figure 10"),
		stated("attempts of a turn", float64(c.Attempts), "attempts", "2^8"),
		stated("endpoint frames", float64(c.Frames), "frames", "7 frames, and 1 privileged frame"),
		ofNOW("channels", float64(channels.Channels), "channels", "from one card to another. The value is the paper's K_user, which is the minimum that the paper allows",
			func(c *amConfig, by float64) { multiply(by, &c.Channels.Channels) }).of("figure 5"),
		ofNOW("time-out", float64(channels.Timeout)/1e6, "ms", "the paper has no number. With 255 tries, a message is returned after several seconds, as the paper states",
			func(c *amConfig, by float64) { multiply(by, &c.Channels.Timeout) }).of("figure 5", "figure 11"),
		ofNOW("scan", float64(channels.Scan)/1e6, "ms", "the interval between two checks for time-outs. The paper has no number; the value is a quarter of a time-out",
			func(c *amConfig, by float64) { multiply(by, &c.Channels.Scan) }).of("figure 5", "figure 11"),
		stated("tries", float64(channels.Tries), "tries", ""),
		ofNOW("residence", float64(c.Residence)/1e6, "ms", "the minimum time that an endpoint keeps its frame while other endpoints wait for a frame. The paper has no number. The value is two time-outs, so that a message that came too early is retransmitted while the endpoint is in its frame",
			func(c *amConfig, by float64) { multiply(by, &c.Residence) }).of("figure 11"),
		ofNOW("residence of senders", float64(c.SendersStay), "times", "the multiple of the residence for which an endpoint keeps its frame while it has messages to send. The paper does not mention it. Without it, two cards whose endpoints take turns would miss each other",
			func(c *amConfig, by float64) { multiply(by, &c.SendersStay) }).of("figure 11"),
		stated("requests under way", amUnderWay, "requests", "for each client in figures 7, 8, 10 and 11, and for the bandwidths of table 1. The value is K_user"),
		fixed("bus, from the host", float64(t.DMAFetch)/1e6, "MB/s", "fig6.streaming_4k", "1 MB is 10^6 bytes here; streaming DMA. The host call that flushes the stream buffer takes no time in the model, because the paper does not state how long this call takes"),
		fixed("bus, from the host, consistent", consistentFetch/1e6, "MB/s", "fig6.consistent_8k", ""),
		fixed("bus, to the host", float64(t.DMABandwidth)/1e6, "MB/s", "sec4.2.rtt_8k_us", "from the rest of the round trip, without the fetch of the message and without its time on the link"),
		ofNOW("start of a DMA", micro(t.DMASetup), "us", "the paper has no number; the value is that of PCI in the VMMC paper",
			func(c *amConfig, by float64) { multiply(by, &c.Card.Timing.DMASetup) }).of("figure 5", "figure 6"),
		ofNOW("interrupt", micro(t.Interrupt), "us", "the paper has no number; the value has the order of magnitude of an interrupt on a processor of that time",
			func(c *amConfig, by float64) { multiply(by, &c.Card.Timing.Interrupt) }).of("figure 11"),
		ofNOW("host, a thread woken", micro(c.wake), "us", "for the server of figure 11: the post of the semaphore and the switch to its thread. Threads share the processor. The paper has no number; the value has the order of magnitude of a process switch of that time",
			func(c *amConfig, by float64) { multiply(by, &c.wake) }).of("figure 11"),
		ofNOW("switch, cut-through", micro(f.CutThrough), "us", "from the arrival of a packet's head to its departure through a free port; the paper has only \"microsecond switch latencies\"",
			func(c *amConfig, by float64) { multiply(by, &c.fabric.CutThrough) }).of("figure 5", "table 1"),
		ofNOW("switch, buffer of an input", float64(f.Slack), "bytes", "the bytes of a blocked packet that an input accepts before the link stops; the paper has no number",
			func(c *amConfig, by float64) { multiply(by, &c.fabric.Slack) }).of("table 1"),
		ofNOW("cable", micro(f.Cable), "us", "the propagation time of a cable of about 5 m; the paper has no number",
			func(c *amConfig, by float64) { multiply(by, &c.fabric.Cable) }).of("figure 5", "table 1"),
		ofNOW("blocked packet", float64(f.Timeout)/1e6, "ms", "the time until a switch breaks the packet. The paper has no number; the value is that of Myrinet's hardware",
			func(c *amConfig, by float64) { multiply(by, &c.fabric.Timeout) }).of("table 1"),
	}}
}
