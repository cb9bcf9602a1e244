package paper

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// repeatFigure5 measures the LogP parameters of the program, and of the program without some of its
// parts.
func repeatFigure5(b *Bench, m *amModel) error {
	all, plain, reliable, untimed := m.now, m.now, m.now, m.now
	plain.Unreliable, plain.Unprotected = true, true
	reliable.Unprotected = true
	untimed.Channels.Timeout, untimed.Channels.Scan = int64(time.Minute), int64(time.Minute)/4
	var l [5]logP
	for i, cfg := range []amConfig{all, plain, reliable, untimed, m.gam} {
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
	b.Set("fig5.l_base_us", base.latency)
	b.Set("fig5.l_reliability_us", rel.latency-base.latency)
	b.Set("fig5.l_protection_us", am2.latency-rel.latency)
	b.Set("fig5.g_base_us", base.gap)
	b.Set("fig5.g_reliability_us", rel.gap-base.gap)
	b.Set("fig5.g_protection_us", am2.gap-rel.gap)
	b.Set("fig5.gam_rtt_us", gam.rtt)
	b.Set("sec4.2.rtt_8k_us", am2.rtt8k)
	near := func(a, b float64) bool { return a < b*1.01 && b < a*1.01 }
	b.Holds("fig5.timers", near(l[3].gap, am2.gap) && near(l[3].rtt, am2.rtt))
	b.Holds("fig5.limits", am2.gap > am2.send+am2.receive && gam.gap <= gam.send+gam.receive)
	drawLogP(b, &l[0], &l[2], &l[1], &l[4])
	fill, err := fillsPipe(b, all)
	if err != nil {
		return err
	}
	b.Set("sec4.2.fill", float64(fill))
	silent, err := measureSilence(b.Context, all)
	b.Holds("sec4.4.2.seconds", silent > 2*time.Second && silent < 10*time.Second)
	return err
}

// fillsPipe returns the smallest power of two of short requests in flight between two hosts at
// which their rate is within 5 % of the highest rate. The channels do not limit the rate.
func fillsPipe(b *Bench, cfg amConfig) (int, error) {
	const most = 32
	cfg.Channels.Channels, cfg.Card.SRAM = most, 1<<20
	rates, highest := map[int]float64{}, 0.0
	for n := 1; n <= most; n *= 2 {
		net, err := newAMNet(b.Context, cfg, topology.Line(8, 1, 2), 2)
		if err != nil {
			return 0, err
		}
		c, err := measureOn(net, n, b.span(crowdTime), one, onServer, shortRequests)
		if err != nil {
			return 0, err
		}
		rates[n] = c.all
		highest = max(highest, c.all)
	}
	n := 1
	for rates[n] < 0.95*highest {
		n *= 2
	}
	return n, nil
}

// silenceLimit is how long measureSilence waits.
const silenceLimit = 20 * time.Second

// measureSilence returns the time after which a request is returned if the card of its destination
// has lost its routes and no longer answers. It returns silenceLimit if the request is not
// returned.
func measureSilence(ctx context.Context, cfg amConfig) (d time.Duration, err error) {
	net, err := newAMNet(ctx, cfg, topology.Line(8, 1, 2), 2)
	if err != nil {
		return 0, err
	}
	net.serve = func() error {
		s, err := net.openHost(0, 1)
		if err != nil {
			return err
		}
		s.ep.SetReturnHandler(func(*endpoint.Returned) {}) // returned replies are dropped
		net.opened++
		return errors.Join(s.take(amTarget{host: -1}, nil), s.node.Close())
	}
	err = net.run(one, onServer, func(h *amHost, _ int) error {
		began := h.w.Now()
		if err := errors.Join(net.cards[0].SetRoutes([]myrinet.HostRoute{}), h.short()); err != nil {
			return err
		}
		for h.back == nil && h.w.Now() < began+int64(silenceLimit) {
			if err := h.poll(time.Millisecond); err != nil && h.back == nil {
				return err
			}
		}
		d, h.back = time.Duration(h.w.Now()-began), nil
		return nil
	})
	return d, err
}

// repeatFigure6 measures the bandwidth of two hosts, with both kinds of DMA.
func repeatFigure6(b *Bench, m *amModel) error {
	streaming, aligned := plot.Series{Name: "streaming"}, plot.Series{Name: "consistent"}
	highest := 0.0
	for _, n := range []int{128, 512, 1024, 2048, 4096, amMedium} {
		for _, kind := range []struct {
			cfg    amConfig
			series *plot.Series
		}{{m.now, &streaming}, {consistent(m.now), &aligned}} {
			rate, err := amBandwidth(b.Context, kind.cfg, n)
			if err != nil {
				return err
			}
			kind.series.Points = append(kind.series.Points, plot.Point{X: float64(n), Value: rate})
			highest = max(highest, rate)
		}
	}
	gam, err := amBandwidth(b.Context, m.gam, amMedium)
	if err != nil {
		return err
	}
	last := len(streaming.Points) - 1
	b.Set("fig6.streaming_4k", streaming.Points[last-1].Value)
	b.Set("fig6.consistent_8k", aligned.Points[last].Value)
	b.Set("fig6.gam", gam)
	b.Set("sec7.bandwidth", highest)
	b.Holds("fig6.small", aligned.Points[0].Value > streaming.Points[0].Value)
	b.Draw(Figure{"am2-figure6", "Bandwidth over message size", []plot.Panel{{
		Title: "Sending bandwidth", Y: "MiB/s",
		Series: []plot.Series{
			streaming, aligned, {Name: "paper, streaming", Published: true, Of: "streaming", Points: []plot.Point{{X: 4096, Value: 31}}},
			{Name: "paper, consistent", Published: true, Of: "consistent", Points: []plot.Point{{X: 8192, Value: 23}}},
		},
	}}})
	return nil
}
