package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/reliability"
)

// repeatFigure5 measures the parameters of LogP of the program, and of what is left of it
// without some of its parts.
func repeatFigure5(b *Bench) error {
	all, plain, reliable, untimed := nowConfig(), nowConfig(), nowConfig(), nowConfig()
	plain.Unreliable, plain.Unprotected = true, true
	reliable.Unprotected = true
	untimed.Channels = reliability.ChannelConfig{Timeout: int64(time.Minute)}
	var l [5]logP
	for i, cfg := range []lanai.Config{all, plain, reliable, untimed, gamConfig()} {
		var err error
		if l[i], err = measureLogP(b.Context, cfg); err != nil {
			return err
		}
	}
	am2, base, rel, gam := l[0], l[1], l[2], l[4]
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
	b.Set("fig5.gam_rtt_us", gam.rtt)
	b.Set("sec7.end_to_end_us", am2.rtt/2)
	b.Set("sec4.2.rtt_8k_us", am2.rtt8k)
	b.Set("sec4.2.rate", 1e6/am2.gap)
	b.Set("sec4.2.pipe_messages", am2.rtt/am2.gap)
	near := func(a, b float64) bool { return a < b*1.01 && b < a*1.01 }
	b.Holds("fig5.timers", near(l[3].gap, am2.gap) && near(l[3].rtt, am2.rtt))
	b.Holds("fig5.limits", am2.gap > am2.send+am2.receive && gam.gap <= gam.send+gam.receive)
	return nil
}

// repeatFigure6 measures the bandwidth of two hosts, with both kinds of DMA.
func repeatFigure6(b *Bench) error {
	streaming, aligned := plot.Series{Name: "streaming"}, plot.Series{Name: "consistent"}
	highest := 0.0
	for _, n := range []int{128, 512, 1024, 2048, 4096, amMedium} {
		for _, kind := range []struct {
			cfg    lanai.Config
			series *plot.Series
		}{{nowConfig(), &streaming}, {consistent(nowConfig()), &aligned}} {
			rate, err := amBandwidth(b.Context, kind.cfg, n)
			if err != nil {
				return err
			}
			kind.series.Points = append(kind.series.Points, plot.Point{X: float64(n), Value: rate})
			highest = max(highest, rate)
		}
	}
	gam, err := amBandwidth(b.Context, gamConfig(), amMedium)
	if err != nil {
		return err
	}
	l, err := measureLogP(b.Context, nowConfig())
	last := len(streaming.Points) - 1
	b.Set("fig6.streaming_4k", streaming.Points[last-1].Value)
	b.Set("fig6.consistent_8k", aligned.Points[last].Value)
	b.Set("fig6.gam", gam)
	b.Set("sec7.share_of_gam", 100*highest/gam)
	b.Set("sec4.2.pipe_octets", streaming.Points[last].Value*mega*l.rtt8k/1e6)
	b.Draw(Figure{"am2-figure6", "Bandwidth over message size", []plot.Panel{{
		Title: "Sending bandwidth", Y: "MB/s (2^20)",
		Series: []plot.Series{
			streaming, aligned, {Name: "paper, streaming", Points: []plot.Point{{X: 4096, Value: 31}}},
			{Name: "paper, consistent", Points: []plot.Point{{X: 8192, Value: 23}}},
		},
	}}})
	return err
}
