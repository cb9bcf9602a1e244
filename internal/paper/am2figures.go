package paper

import "github.com/bobnet-go/bobnet/internal/plot"

// crowdRates are the rates of a server and its clients, over the number of clients.
type crowdRates struct{ server, mean, slowest, fastest []plot.Point }

// add adds a crowd.
func (r *crowdRates) add(c *crowd) {
	n := float64(len(c.clients))
	slowest, fastest := c.spread()
	mean := c.all / n
	r.server = append(r.server, plot.Point{X: n, Value: c.all})
	r.mean = append(r.mean, plot.Point{X: n, Value: mean})
	r.fastest = append(r.fastest, plot.Point{X: n, Value: mean * (1 + fastest)})
	if slowest > -1 { // axes are logarithmic
		r.slowest = append(r.slowest, plot.Point{X: n, Value: mean * (1 + slowest)})
	}
}

// series are the lines of a plot.
func (r *crowdRates) series() []plot.Series {
	return []plot.Series{
		{Name: "server", Points: r.server}, {Name: "client, mean", Points: r.mean},
		{Name: "slowest", Points: r.slowest}, {Name: "fastest", Points: r.fastest},
	}
}

// level is a published value that holds along the whole horizontal axis.
func level(name string, value, from, to float64) plot.Series {
	return plot.Series{Name: name, Published: true, Points: []plot.Point{{X: from, Value: value}, {X: to, Value: value}}}
}

// drawCrowds draws figures 7 to 9. For these figures, the paper's text has only the slope of figure
// 9. The slope is drawn from our second point on, and is the maximum rate of figure 7's server.
func (b *Bench) drawCrowds(rates *crowdRates, bytes, trips plot.Series) {
	gap := b.paper.item("fig9.slope_us").Published
	from, to := trips.Points[1], trips.Points[len(trips.Points)-1].X
	slope := plot.Series{Name: "paper, slope", Published: true, Points: []plot.Point{from, {X: to, Value: from.Value + gap*(to-from.X)}}}
	for _, f := range []struct {
		name, title, unit string
		series            []plot.Series
	}{
		{"am2-figure7", "Message rates of one server and its clients", "messages/s", append(rates.series(), level("paper, one each gap", 1e6/gap, from.X, to))},
		{"am2-figure8", "Bandwidth of messages of 1 KiB to one server", "MiB/s", []plot.Series{bytes}},
		{"am2-figure9", "Round trips to one server", "µs", []plot.Series{trips, slope}},
	} {
		b.Draw(Figure{f.name, f.title, []plot.Panel{{Title: f.title, X: "clients", Y: f.unit, Series: f.series}}})
	}
}

// paperThreads returns the values of the paper's text for figure 11, at a number of clients.
func paperThreads(b *Bench, clients float64) []plot.Series {
	published := func(item string) float64 { return b.paper.item(item).Published }
	mean := published("fig11.rate") / clients
	point := func(name, of string, value float64) plot.Series {
		return plot.Series{Name: "paper, " + name, Published: true, Of: of, Points: []plot.Point{{X: clients, Value: value}}}
	}
	return []plot.Series{
		point("server", "server", published("fig11.rate")), point("mean", "client, mean", mean),
		point("slowest", "slowest", mean*(1-published("fig11.slowest")/100)), point("fastest", "fastest", mean*(1+published("fig11.fastest")/100)),
	}
}

// drawLogP draws figure 5: the parameters of the program, of the program without some of its parts,
// and of GAM.
func drawLogP(b *Bench, all, reliable, plain, gam *logP) {
	parameters := func(name string, values ...float64) plot.Series {
		s := plot.Series{Name: name}
		for i, v := range values {
			if v > 0 {
				s.Points = append(s.Points, plot.Point{X: float64(i), Value: v})
			}
		}
		return s
	}
	ours := func(name string, l *logP) plot.Series { return parameters(name, l.send, l.receive, l.latency, l.gap) }
	published := func(item string) float64 { return b.paper.item(item).Published }
	paper := func(of string, values ...float64) plot.Series {
		s := parameters("paper, "+of, values...)
		s.Published, s.Of = true, of
		return s
	}
	base := paper("no reliability either", 0, 0, published("fig5.l_base_us"), published("fig5.g_base_us"))
	b.Draw(Figure{"am2-figure5", "LogP parameters of AM-II, of AM-II without some of its parts, and of GAM", []plot.Panel{{
		Title: "LogP", Names: []string{"o_s", "o_r", "L", "g"}, Y: "µs",
		Series: []plot.Series{
			ours("AM-II", all), ours("no protection", reliable), ours("no reliability either", plain), ours("GAM", gam),
			paper("AM-II", published("fig5.o_s_us"), published("fig5.o_r_us"), published("fig5.l_us"), published("fig5.g_us")), base,
		},
	}}})
}
