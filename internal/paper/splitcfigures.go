package paper

import (
	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/plot"
)

// repeatAMVIA repeats the measurements of section 6.1.
func repeatAMVIA(b *Bench, m *viaModel) error {
	l, err := m.measureVIALogP(b.Context)
	if err != nil {
		return err
	}
	via, err := m.blocking(b.Context, m.via(), false, viaPut, 4)
	if err != nil {
		return err
	}
	am, err := m.blocking(b.Context, m.amvia(), false, viaPut, 4)
	if err != nil {
		return err
	}
	const long = 4096
	amStream, err := m.stream(b.Context, m.amvia(), false, viaPut, long, viaRounds)
	if err != nil {
		return err
	}
	viaStream, err := m.stream(b.Context, m.via(), false, viaStore, long, viaRounds)
	if err != nil {
		return err
	}
	now, err := measureLogP(b.Context, nowConfig())
	if err != nil {
		return err
	}
	b.Set("fig6-2.plateau_us", l.plateau)
	b.Set("sec6.1.via_us", via/2)
	b.Set("table6-1.o_s_us", l.send)
	b.Set("table6-1.o_r_us", micro(m.receive))
	b.Set("sec6.1.amvia_adds_us", (am-via)/2)
	b.Set("sec6.1.amvia_mbps", 8*long/amStream)
	b.Set("sec6.1.of_now", am/now.rtt)
	b.Holds("sec6.1.of_via", amStream > 2*viaStream)
	b.Set("table6-1.g_us", l.gap)
	b.Set("fig6-2.knee", float64(l.knee))
	b.Set("sec7.2.buffers_kb", float64(amviaBuffers(endpoint.AMVIACredits))/1024)
	b.Holds("sec7.2.one_vi", (4*32+1)*(80<<10) > 10_000_000)
	drawSignature(b, l)
	return nil
}

// drawSignature draws figure 6-2: the mean time of the requests of a burst.
func drawSignature(b *Bench, l viaLogP) {
	ours := plot.Series{Name: "ours, no pause between requests"}
	for n := 1; n <= viaBurst; n *= 2 {
		ours.Points = append(ours.Points, plot.Point{X: float64(n), Value: l.issued[n-1] / float64(n)})
	}
	level := func(name, item string, from, to float64) plot.Series {
		v := b.paper.item(item).Published
		return plot.Series{Name: name, Published: true, Points: []plot.Point{{X: from, Value: v}, {X: to, Value: v}}}
	}
	b.Draw(Figure{"splitc-figure6-2", "LogP signature of AMVIA", []plot.Panel{{
		Title: "Time per message of a burst, AMVIA", X: "requests in the burst", Y: "µs",
		Series: []plot.Series{ours, level("paper, plateau", "fig6-2.plateau_us", 4, 64), level("paper, gap", "table6-1.g_us", 256, 512)},
	}}})
}

// primitives are the times of read, write, get, put and store, in microseconds.
type primitives [5]float64

// measure returns the times of a layer's primitives on an int.
func (m *viaModel) measure(b *Bench, layer viaLayer, both bool) (p primitives, err error) {
	for i, kind := range []byte{viaGet, viaPut, viaGet, viaPut, viaStore} {
		if i < 2 && !m.phased {
			p[i], err = m.blocking(b.Context, layer, both, kind, 4)
		} else {
			p[i], err = m.stream(b.Context, layer, both, kind, 4, viaBurst)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// repeatPrimitives measures figure 6-3. On the NOW, each primitive is a request and a reply of AM.
func repeatPrimitives(b *Bench, m *viaModel) error {
	now, err := measureLogP(b.Context, nowConfig())
	if err != nil {
		return err
	}
	ofNow := primitives{now.rtt, now.rtt, now.gap, now.gap, now.gap}
	layers := m.layers()
	var one, both [3]primitives
	ahead := true
	var ratio primitives
	for i, layer := range layers {
		if one[i], err = m.measure(b, layer, false); err != nil {
			return err
		}
		if both[i], err = m.measure(b, layer, true); err != nil {
			return err
		}
		for k := range ratio {
			ratio[k] += both[i][k] / one[i][k] / float64(len(layers))
			ahead = ahead && ofNow[k] < one[i][k]
		}
	}
	const put, store = 3, 4
	am, reliable, unreliable := one[0], one[1], one[2]
	b.Set("fig6-3.stores_reliable", reliable[put]/reliable[store])
	b.Set("fig6-3.stores_unreliable", unreliable[put]/unreliable[store])
	for k, name := range []string{"read", "write", "get", "put", "store"} {
		b.Set("fig6-3.both_"+name, ratio[k])
	}
	b.Holds("fig6-3.now", ahead)
	favours := func(p primitives) bool { return p[store] < am[store] && am[store]/p[store] > am[put]/p[put] }
	b.Holds("fig6-3.overhead", favours(reliable) && favours(unreliable))
	drawPrimitives(b, append([]primitives{ofNow}, one[:]...), both[:])
	return besidePrimitives(b, m)
}

// drawPrimitives draws figure 6-3, with the primitives in the paper's order.
func drawPrimitives(b *Bench, one, both []primitives) {
	panel := func(title string, names []string, times []primitives) plot.Panel {
		p := plot.Panel{Title: title, Names: []string{"read", "write", "get", "put", "store"}, Y: "µs"}
		for i, name := range names { // a series for each layer, so that both panels have the same colours
			s := plot.Series{Name: name}
			for k, us := range times[i] {
				if us == 0 {
					continue // not measured
				}
				s.Points = append(s.Points, plot.Point{X: float64(k), Value: us})
			}
			p.Series = append(p.Series, s)
		}
		return p
	}
	names := []string{"NOW", "AMVIA", "reliable VIA", "unreliable VIA"}
	b.Draw(Figure{"splitc-figure6-3", "Split-C's primitives on integers", []plot.Panel{
		panel("One process sends", names, one),
		panel("Both processes send", names, append([]primitives{{}}, both...)),
	}})
}

// repeatBulk measures the gets of figure 6-4, over unreliable VIA.
func repeatBulk(b *Bench, m *viaModel) error {
	var times [2]plot.Series
	sizes := []int{4, 16, 64, 256, 1024, 4096}
	for i, both := range []bool{false, true} {
		times[i].Name = []string{"gets, one process", "gets, both processes"}[i]
		for _, n := range sizes {
			us, err := m.stream(b.Context, m.unreliable(), both, viaGet, n, viaBurst/4)
			if err != nil {
				return err
			}
			times[i].Points = append(times[i].Points, plot.Point{X: float64(n), Value: us})
		}
	}
	ratio := func(i int) float64 { return times[1].Points[i].Value / times[0].Points[i].Value }
	b.Set("fig6-4.small", ratio(0))
	b.Holds("fig6-4.large", ratio(len(sizes)-1) < ratio(0))
	b.Draw(Figure{"splitc-figure6-4", "Bulk gets over unreliable VIA", []plot.Panel{{Title: "Bulk gets, unreliable VIA", Y: "µs", Series: times[:]}}})
	return besideBulk(b, m)
}
