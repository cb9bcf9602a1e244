package paper

import (
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// The durations for which requests are counted: for the crowds of clients of figures 8 to 10 and
// table 1, for the largest crowd of figure 7, and for endpoints that take turns in frames.
const (
	crowdTime  = 200 * time.Millisecond
	fullTime   = time.Second
	threadTime = 5 * time.Second
)

// repeatCrowd measures one endpoint with an increasing number of clients. Each client has four
// short requests in flight in figure 7, messages of 1 KB in figure 8, and one request in figure 9.
func repeatCrowd(b *Bench, m *amModel) error {
	const few, many = 4, tableHosts
	var rates crowdRates
	bytes, trips := plot.Series{Name: "server"}, plot.Series{Name: "client, mean"}
	at := map[string]map[int]float64{"fig7": {}, "fig8": {}, "fig9": {}}
	for _, n := range []int{1, few, 16, many} {
		ask := func(underWay int, d time.Duration, request func(h *amHost) func() error) (crowd, error) {
			return measureCrowd(b.Context, m.now, n+1, underWay, d, one, onServer, request)
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
		rates.add(&short)
		bytes.Points = append(bytes.Points, plot.Point{X: x, Value: at["fig8"][n]})
		trips.Points = append(trips.Points, plot.Point{X: x, Value: alone.rtt})
	}
	b.Holds("fig7.no_collapse", at["fig7"][many] > 0.9*at["fig7"][few])
	b.Holds("fig8.no_collapse", at["fig8"][many] > 0.9*at["fig8"][few])
	b.Set("fig9.slope_us", (at["fig9"][many]-at["fig9"][few])/(many-few))
	b.drawCrowds(&rates, bytes, trips)
	return nil
}

// ownEndpoints makes the server open an endpoint for each of n clients.
func ownEndpoints(n int) func(host int) int {
	return func(host int) int {
		if host == 0 {
			return n
		}
		return 1
	}
}

// repeatFigure10 gives each client its own endpoint at the server.
func repeatFigure10(b *Bench, m *amModel) error {
	var rates crowdRates
	peak, fair := b.paper.item("fig10.rate").Published, true
	for _, n := range []int{1, 4, 7} {
		c, err := measureCrowd(b.Context, m.now, n+1, amUnderWay, b.span(crowdTime), ownEndpoints(n), toOwnEndpoint, shortRequests)
		if err != nil {
			return err
		}
		slowest, fastest := c.spread()
		fair = fair && c.all > 0.89*peak && slowest > -0.16 && fastest < 0.16
		rates.add(&c)
		if n == 7 {
			b.Set("fig10.rate", c.all)
		}
	}
	b.Holds("fig10.fair", fair)
	b.Draw(Figure{"am2-figure10", "Message rates with a virtual network for each client", []plot.Panel{{
		Title: "Small numbers of virtual networks", X: "virtual networks", Y: "messages/s",
		Series: append(rates.series(), level("paper, peak", peak, 1, 7), level("paper, 11 % below it", 0.89*peak, 1, 7)),
	}}})
	return nil
}

// repeatFigure11 gives each client its own endpoint and thread at the server. The card has fewer
// frames than these endpoints.
func repeatFigure11(b *Bench, m *amModel) error {
	const most = 84 // 12 for each of the 7 frames
	var rates crowdRates
	for _, n := range []int{7, 28, most} {
		d := fullTime
		if n == most {
			d = threadTime
		}
		c, err := measureThreads(b.Context, m.now, n, b.span(d))
		if err != nil {
			return err
		}
		rates.add(&c)
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
		Title: "Large numbers of virtual networks", X: "virtual networks", Y: "messages/s",
		Series: append(rates.series(), paperThreads(b, most)...),
	}}})
	return nil
}
