package paper

import (
	"math"

	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/vmmc"
)

// repeatLatency repeats figure 2.
func repeatLatency(b *Bench, m *vmmcModel) error {
	ours := plot.Series{Name: "ours"}
	for _, n := range []int{4, 16, 64, 128, 256, 512} {
		round, err := m.exchange(b.Context, n, vmmc.DefaultShort, false)
		if err != nil {
			return err
		}
		if n == 4 {
			b.Set("fig2.one_word_us", round/2)
		}
		ours.Points = append(ours.Points, plot.Point{X: float64(n), Value: round / 2})
	}
	copied, err := m.exchange(b.Context, 96, 128, false)
	if err != nil {
		return err
	}
	fetched, err := m.exchange(b.Context, 96, 64, false)
	if err != nil {
		return err
	}
	b.Holds("fig2.thresholds", math.Abs(fetched/copied-1) < Near)
	b.Draw(Figure{"vmmc-figure2", "One-way time of short messages", []plot.Panel{{
		Title: "Latency", Y: "µs", Series: []plot.Series{ours, {Name: "paper", Published: true, Of: "ours", Points: []plot.Point{{X: 4, Value: 9.8}}}},
	}}})
	return nil
}

// repeatRates repeats figure 3.
func repeatRates(b *Bench, m *vmmcModel) error {
	one, both := plot.Series{Name: "one way"}, plot.Series{Name: "both ways, together"}
	var highest [2]float64
	for _, n := range []int{1024, 4096, 16_384, 65_536, 262_144, 1_048_576} {
		alternating, err := m.exchange(b.Context, n, vmmc.DefaultShort, false)
		if err != nil {
			return err
		}
		together, err := m.exchange(b.Context, n, vmmc.DefaultShort, true)
		if err != nil {
			return err
		}
		x := float64(n)
		one.Points = append(one.Points, plot.Point{X: x, Value: 2 * x / alternating})
		both.Points = append(both.Points, plot.Point{X: x, Value: 2 * x / together})
		highest[0], highest[1] = max(highest[0], 2*x/alternating), max(highest[1], 2*x/together)
	}
	b.Set("fig3.one_way", highest[0])
	b.Set("fig3.both_ways", highest[1])
	b.Draw(Figure{"vmmc-figure3", "Bandwidth over message size", []plot.Panel{{
		Title: "Bandwidth", Y: "MB/s",
		Series: []plot.Series{one, both, {Name: "paper, one way", Published: true, Of: "one way", Points: []plot.Point{{X: 1_048_576, Value: 108.4}}}, {Name: "paper, both ways", Published: true, Of: "both ways, together", Points: []plot.Point{{X: 1_048_576, Value: 91}}}},
	}}})
	return nil
}

// repeatOverheads repeats figure 4.
func repeatOverheads(b *Bench, m *vmmcModel) error {
	synchronous, asynchronous := plot.Series{Name: "synchronous"}, plot.Series{Name: "asynchronous"}
	sync, async := map[int]float64{}, map[int]float64{}
	for _, n := range []int{4, 32, 64, 128, 256, 1024, 4096} {
		var err error
		if sync[n], err = m.overhead(b.Context, n, true); err != nil {
			return err
		}
		if async[n], err = m.overhead(b.Context, n, false); err != nil {
			return err
		}
		synchronous.Points = append(synchronous.Points, plot.Point{X: float64(n), Value: sync[n]})
		asynchronous.Points = append(asynchronous.Points, plot.Point{X: float64(n), Value: async[n]})
	}
	b.Set("fig4.synchronous_us", sync[4])
	b.Holds("fig4.jump", sync[256] > 1.5*sync[128])
	b.Holds("fig4.asynchronous", async[256] < async[128])
	b.Draw(Figure{"vmmc-figure4", "Overhead of synchronous and asynchronous sends", []plot.Panel{{
		Title: "Send overhead", Y: "µs", Series: []plot.Series{synchronous, asynchronous},
	}}})
	return nil
}

// repeatCalls repeats section 5.4.
func repeatCalls(b *Bench, m *vmmcModel) error {
	null, err := m.calls(b.Context, 0)
	if err != nil {
		return err
	}
	ours := plot.Series{Name: "calls"}
	highest := 0.0
	for _, n := range []int{1024, 4096, 16_384, 65_536, 262_144} {
		us, err := m.calls(b.Context, n)
		if err != nil {
			return err
		}
		rate := 2 * float64(n) / us
		highest = max(highest, rate)
		ours.Points = append(ours.Points, plot.Point{X: float64(n), Value: rate})
	}
	b.Set("sec5.4.bcopy", m.bcopy/1e6)
	b.Set("sec5.4.vrpc_us", null)
	b.Set("sec5.4.vrpc", highest)
	if err := besideCalls(b, m); err != nil {
		return err
	}
	b.Draw(Figure{"vmmc-calls", "Bandwidth of remote procedure calls (the paper draws none)", []plot.Panel{{
		Title: "Remote procedure calls", Y: "MB/s", Series: []plot.Series{ours, {Name: "paper", Published: true, Of: "calls", Points: []plot.Point{{X: 262_144, Value: 32.5}}}},
	}}})
	return nil
}

// besideCalls measures the values of section 5.4 with package vmmc/vrpc, in addition to the model.
func besideCalls(b *Bench, m *vmmcModel) error {
	if b.change != nil {
		return nil
	}
	null, err := m.rpcs(b.Context, 0)
	if err != nil {
		return err
	}
	const long = 262_144
	us, err := m.rpcs(b.Context, long)
	if err != nil {
		return err
	}
	b.Beside("sec5.4.vrpc_us", null)
	b.Beside("sec5.4.vrpc", 2*long/us)
	return nil
}
