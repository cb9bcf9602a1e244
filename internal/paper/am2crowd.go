package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/plot"
)

// For how long requests are counted: of crowds of clients of figures 8 to 10 and table 1, of
// the largest one of figure 7, and of endpoints that take turns to be in frames.
const (
	crowdTime  = 200 * time.Millisecond
	fullTime   = time.Second
	threadTime = 5 * time.Second
)

// repeatCrowd has more and more clients ask one endpoint: in figure 7 with four short
// requests under way from each, in figure 8 with messages of 1 KB, in figure 9 with one
// request.
func repeatCrowd(b *Bench) error {
	const few, many = 4, tableHosts
	var rates, each, bytes, trips plot.Series
	at := map[string]map[int]float64{"fig7": {}, "fig8": {}, "fig9": {}}
	for _, n := range []int{1, few, 16, many} {
		ask := func(underWay int, d time.Duration, request func(h *amHost) func() error) (crowd, error) {
			return measureCrowd(b.Context, nowConfig(), n+1, underWay, d, one, onServer, request)
		}
		d := crowdTime
		if n == many {
			d = fullTime
		}
		short, err := ask(amUnderWay, b.span(d), shortRequests)
		if err != nil {
			return err
		}
		// Messages of 1 KB fill the pipe for longer than a brief experiment takes.
		kilo, err := ask(amUnderWay, crowdTime, func(h *amHost) func() error { return h.medium(1024) })
		if err != nil {
			return err
		}
		alone, err := ask(1, b.span(crowdTime), shortRequests)
		if err != nil {
			return err
		}
		if n == many {
			b.Holds("fig7.even", short.even())
			b.Holds("fig8.even", kilo.even())
		}
		x := float64(n)
		at["fig7"][n], at["fig8"][n], at["fig9"][n] = short.all, kilo.all*1024/mega, alone.rtt
		rates.Points = append(rates.Points, plot.Point{X: x, Value: short.all})
		each.Points = append(each.Points, plot.Point{X: x, Value: short.all / x})
		bytes.Points = append(bytes.Points, plot.Point{X: x, Value: at["fig8"][n]})
		trips.Points = append(trips.Points, plot.Point{X: x, Value: alone.rtt})
	}
	b.Holds("fig7.no_collapse", at["fig7"][many] > 0.9*at["fig7"][few])
	b.Holds("fig8.no_collapse", at["fig8"][many] > 0.9*at["fig8"][few])
	b.Set("fig9.slope_us", (at["fig9"][many]-at["fig9"][few])/(many-few))
	rates.Name, each.Name, bytes.Name, trips.Name = "server", "client, mean", "server", "client, mean"
	for _, f := range []struct {
		name, title, unit string
		series            []plot.Series
	}{
		{"am2-figure7", "Message rates of one server and its clients", "messages/s", []plot.Series{rates, each}},
		{"am2-figure8", "Bandwidth of messages of 1 KB to one server", "MB/s (2^20)", []plot.Series{bytes}},
		{"am2-figure9", "Round trips to one server", "us", []plot.Series{trips}},
	} {
		b.Draw(Figure{f.name, f.title, []plot.Panel{{Title: f.title, X: "clients", Y: f.unit, Series: f.series}}})
	}
	return nil
}

// ownEndpoints has the server open an endpoint for each of n clients.
func ownEndpoints(n int) func(host int) int {
	return func(host int) int {
		if host == 0 {
			return n
		}
		return 1
	}
}

// repeatFigure10 gives each client an endpoint of its own at the server.
func repeatFigure10(b *Bench) error {
	rates := plot.Series{Name: "server"}
	each := plot.Series{Name: "client, mean"}
	peak, fair := b.paper.item("fig10.rate").Published, true
	for _, n := range []int{1, 4, 7} {
		c, err := measureCrowd(b.Context, nowConfig(), n+1, amUnderWay, b.span(crowdTime), ownEndpoints(n), toOwnEndpoint, shortRequests)
		if err != nil {
			return err
		}
		slowest, fastest := c.spread()
		fair = fair && c.all > 0.89*peak && slowest > -0.16 && fastest < 0.16
		rates.Points = append(rates.Points, plot.Point{X: float64(n), Value: c.all})
		each.Points = append(each.Points, plot.Point{X: float64(n), Value: c.all / float64(n)})
		if n == 7 {
			b.Set("fig10.rate", c.all)
		}
	}
	b.Holds("fig10.fair", fair)
	b.Draw(Figure{"am2-figure10", "Message rates with a virtual network for each client", []plot.Panel{{
		Title: "Small numbers of virtual networks", X: "virtual networks", Y: "messages/s", Series: []plot.Series{rates, each},
	}}})
	return nil
}

// repeatFigure11 gives each client an endpoint and a thread of its own at the server, more
// of them than it has frames.
func repeatFigure11(b *Bench) error {
	const most = 84 // 12 for each of the 7 frames
	rates, each := plot.Series{Name: "server"}, plot.Series{Name: "client, mean"}
	for _, n := range []int{7, 28, most} {
		d := fullTime
		if n == most {
			d = threadTime
		}
		c, err := measureThreads(b.Context, nowConfig(), n, b.span(d))
		if err != nil {
			return err
		}
		rates.Points = append(rates.Points, plot.Point{X: float64(n), Value: c.all})
		each.Points = append(each.Points, plot.Point{X: float64(n), Value: c.all / float64(n)})
		if n == most {
			slowest, fastest := c.spread()
			b.Set("fig11.rate", c.all)
			b.Set("fig11.fastest", 100*fastest)
			b.Set("fig11.slowest", -100*slowest)
			b.Set("fig11.burst", c.burst)
			b.Holds("fig11.no_starvation", slowest > -2.0/3)
		}
	}
	b.Draw(Figure{"am2-figure11", "Message rates with more virtual networks than frames", []plot.Panel{{
		Title: "Large numbers of virtual networks", X: "virtual networks", Y: "messages/s", Series: []plot.Series{rates, each},
	}}})
	return nil
}

// tableHosts is how many hosts table 1 has, and how many clients figures 7 to 9 have at the
// most.
const tableHosts = 92

// repeatTable1 has 92 hosts of the NOW ask each other: for the round trip a short request
// at a time, for the bandwidth messages of 8 KB.
func repeatTable1(b *Bench) error {
	const hosts = tableHosts
	alone, err := measureLogP(b.Context, nowConfig())
	if err != nil {
		return err
	}
	peak, err := amBandwidth(b.Context, nowConfig(), amMedium)
	if err != nil {
		return err
	}
	peaks, optimal := true, true
	for _, p := range []struct {
		name   string
		target func(i int) int
	}{
		{"cshift", func(i int) int { return (i + 1) % hosts }},
		{"neighbor", func(i int) int { return i ^ 1 }},
		{"bisection", func(i int) int { return (i + hosts/2) % hosts }},
	} {
		short, bulk, err := permutation(b, nowConfig(), hosts, p.target)
		if err != nil {
			return err
		}
		each := bulk.all / hosts * amMedium / mega
		b.Set("table1."+p.name+"_rtt_us", short.rtt)
		b.Set("table1."+p.name+"_bw", each)
		if p.name != "bisection" {
			peaks = peaks && each > 0.8*peak
			optimal = optimal && short.rtt < 2*alone.rtt
		}
	}
	b.Holds("table1.peaks", peaks)
	b.Holds("table1.optimal", optimal)
	return nil
}

// permutation has each host ask another one.
func permutation(b *Bench, cfg lanai.Config, hosts int, target func(i int) int) (short, bulk crowd, err error) {
	to := func(host int) amTarget { return amTarget{host: target(host)} }
	if short, err = measureCrowd(b.Context, cfg, hosts, 1, b.span(crowdTime), one, to, shortRequests); err != nil {
		return short, bulk, err
	}
	long := func(h *amHost) func() error { return h.medium(amMedium) }
	bulk, err = measureCrowd(b.Context, cfg, hosts, amUnderWay, b.span(crowdTime), one, to, long)
	return short, bulk, err
}
