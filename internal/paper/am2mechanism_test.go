package paper

import (
	"context"
	"errors"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// am2Mechanisms checks which mechanisms determine the numbers of the AM-II paper, with two hosts
// and with many.
func am2Mechanisms(x *mechanisms) {
	am2Pair(x)
	am2Crowds(x)
	am2Table(x)
	am2Threads(x)
}

// retime changes the timing of a card.
func retime(c *amConfig, change func(t *myrinet.Timing)) {
	timing := *c.Card.Timing
	change(&timing)
	c.Card.Timing = &timing
}

// am2Pair checks the effects of the protocols and of GAM's pipelining on two hosts.
func am2Pair(x *mechanisms) {
	run := func(change func(m *amModel)) map[string]float64 {
		m := newAMModel()
		change(m)
		return x.repeat(func(b *Bench) error { return errors.Join(repeatFigure5(b, m), repeatFigure6(b, m)) })
	}
	was := run(func(*amModel) {})
	x.moves("the program's time to send", 0.2, was, run(func(m *amModel) { m.now.Costs.Send = 0 }), "fig5.g_base_us")
	x.moves("reliability", 0.3, was, run(func(m *amModel) { m.now.Unreliable = true }), "fig5.g_us", "sec4.2.rate", "sec4.2.pipe_messages")
	x.moves("reliability", 0.05, was, run(func(m *amModel) { m.now.Unreliable = true }), "fig5.l_us", "fig5.rtt_us")
	x.moves("protection", 0.9, was, run(func(m *amModel) { m.now.Unprotected = true }), "fig5.g_protection_us")
	x.moves("protection", 0.05, was, run(func(m *amModel) { m.now.Unprotected = true }), "fig5.g_us", "fig5.l_us", "fig5.rtt_us")
	x.moves("virtual networks", 0.3, was, run(func(m *amModel) { m.now.Unnamed = true }), "fig5.l_us", "fig5.rtt_us")
	x.moves("the program's steps", 0.4, was, run(func(m *amModel) { m.now.Costs = lanai.Costs{} }), "sec4.2.fill")
	x.moves("a pipeline", 0.15, was, run(func(m *amModel) { m.gam.Pipelined = false }), "fig6.gam", "sec7.share_of_gam")
	x.moves("a pipeline that waits", 0.15, was, run(func(m *amModel) { m.now.Pipelined = true }), "sec7.bandwidth")
	x.moves("the bus's slow reads", 0.3, was, run(func(m *amModel) { retime(&m.now, func(t *myrinet.Timing) { t.DMAFetch = 0 }) }), "sec7.bandwidth", "sec7.share_of_gam")
}

// mechanismTime is the duration for which crowds are measured here.
const mechanismTime = 20 * time.Millisecond

// am2Crowds checks that the card's program determines the rate of a server.
func am2Crowds(x *mechanisms) {
	crowds := func(change func(c *amConfig)) map[string]float64 {
		c := nowConfig()
		change(&c)
		trip := map[int]float64{}
		for _, n := range []int{4, 16} {
			got, err := measureCrowd(context.Background(), c, n+1, 1, mechanismTime, one, onServer, shortRequests)
			if err != nil {
				x.Fatal(err)
			}
			trip[n] = got.rtt
		}
		own, err := measureCrowd(context.Background(), c, 8, amUnderWay, mechanismTime, ownEndpoints(7), toOwnEndpoint, shortRequests)
		if err != nil {
			x.Fatal(err)
		}
		return map[string]float64{"fig9.slope_us": (trip[16] - trip[4]) / 12, "fig10.rate": own.all}
	}
	was := crowds(func(*amConfig) {})
	x.moves("reliability", 0.2, was, crowds(func(c *amConfig) { c.Unreliable = true }), "fig9.slope_us", "fig10.rate")
	x.moves("the program's time to receive", 0.2, was, crowds(func(c *amConfig) { c.Costs.Receive = 0 }), "fig9.slope_us")
	x.moves("quick attempts in vain", 0.1, was, crowds(func(c *amConfig) { c.Costs.Loiter = 10 }), "fig10.rate")
}

// am2Table checks that the hosts' buses determine bandwidths, that the cables determine the
// bandwidth across a bisection, and that round trips include the program's checks. Networks are
// smaller here.
func am2Table(x *mechanisms) {
	exchange := func(topology *topology.Topology, hosts int, target func(host int) int, change func(c *amConfig)) (rtt, rate float64) {
		c := nowConfig()
		change(&c)
		to := func(host int) amTarget { return amTarget{host: target(host)} }
		for _, kind := range []struct {
			underWay int
			request  func(h *amHost) func() error
		}{{1, shortRequests}, {amUnderWay, func(h *amHost) func() error { return h.medium(amMedium) }}} {
			net, err := newAMNet(context.Background(), c, topology, hosts)
			if err != nil {
				x.Fatal(err)
			}
			got, err := measureOn(net, kind.underWay, mechanismTime, one, to, kind.request)
			if err != nil {
				x.Fatal(err)
			}
			if kind.underWay == 1 {
				rtt = got.rtt
			} else {
				rate = got.all
			}
		}
		return rtt, rate
	}
	const hosts = 16
	targets := map[string]func(int) int{
		"cshift":    func(i int) int { return (i + 1) % hosts },
		"neighbor":  func(i int) int { return i ^ 1 },
		"bisection": func(i int) int { return (i + hosts/2) % hosts },
	}
	all := func(bisection *topology.Topology, change func(c *amConfig)) map[string]float64 {
		values := map[string]float64{}
		for name, target := range targets {
			topology := topology.NOW()
			if name == "bisection" {
				topology = bisection
			}
			rtt, rate := exchange(topology, hosts, target, change)
			values["table1."+name+"_rtt_us"], values["table1."+name+"_bw"], values["table1."+name+"_all"] = rtt, rate, rate
		}
		return values
	}
	half := topology.Line(hosts, 2, hosts/2) // each half at a switch, with one cable between them
	asIs := func(*amConfig) {}
	was := all(half, asIs)
	x.moves("the bisection", 0.3, was, all(topology.Line(hosts, 1, hosts), asIs), "table1.bisection_bw", "table1.bisection_all")
	// A smaller part of cshift's time is spent on stores: its messages meet in the network, and the
	// messages of neighbor do not.
	storesFree := all(half, func(c *amConfig) { retime(c, func(t *myrinet.Timing) { t.DMABandwidth = 0 }) })
	x.moves("the time of stores", 0.05, was, storesFree, "table1.neighbor_bw", "table1.neighbor_all")
	x.moves("the time of stores", 0.02, was, storesFree, "table1.cshift_bw", "table1.cshift_all")
	x.moves("protection", 0.03, was, all(half, func(c *amConfig) { c.Unprotected = true }), "table1.cshift_rtt_us", "table1.neighbor_rtt_us", "table1.bisection_rtt_us")
}

// am2Threads checks that endpoints do not take turns if each endpoint has a frame. Then each gets a
// part of the card's rate all the time.
func am2Threads(x *mechanisms) {
	threads := func(change func(c *amConfig)) map[string]float64 {
		c := nowConfig()
		change(&c)
		got, err := measureThreads(context.Background(), c, 14, 5*mechanismTime)
		if err != nil {
			x.Fatal(err)
		}
		slowest, fastest := got.spread()
		return map[string]float64{"fig11.slowest": slowest, "fig11.fastest": fastest, "fig11.rate": got.all, "fig11.burst": got.burst}
	}
	was := threads(func(*amConfig) {})
	x.moves("too few frames", 0.5, was, threads(func(c *amConfig) { c.Frames = 16 }), "fig11.slowest", "fig11.fastest")
	x.moves("too few frames", 0.3, was, threads(func(c *amConfig) { c.Frames = 16 }), "fig11.burst")
	x.moves("the time to wake threads", 0.02, was, threads(func(c *amConfig) { c.wake = 0 }), "fig11.rate")
	x.moves("the program's steps", 0.2, was, threads(func(c *amConfig) { c.Costs = lanai.Costs{} }), "fig11.rate")
}
