package paper

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	vmmclanai "github.com/bobnet-go/bobnet/vmmc/lanai"
)

// repeat runs an experiment and returns what it sets.
func repeat(t *testing.T, p *Paper, run func(b *Bench) error) map[string]float64 {
	t.Helper()
	b := &Bench{Context: context.Background(), brief: true, values: map[string]float64{}, paper: p}
	if err := run(b); err != nil {
		t.Fatal(err)
	}
	return b.values
}

// moves wants items to have moved by a share at least.
func moves(t *testing.T, off string, by float64, was, is map[string]float64, items ...string) {
	t.Helper()
	for _, item := range items {
		if moved := math.Abs(is[item]/was[item] - 1); moved < by || math.IsNaN(moved) {
			t.Errorf("without %s %s is %v, and %v with it: want a change of %v", off, item, is[item], was[item], by)
		}
	}
}

// TestMechanismsMatter: an output moves when what makes it is switched off, so that it is
// no input in disguise.
func TestMechanismsMatter(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats experiments of four papers many times")
	}
	t.Run("bobnet", func(t *testing.T) {
		fast := func(change func(e *Ethernet)) map[string]float64 {
			e := FastEthernet()
			change(e)
			return repeat(t, bobnetPaper(), func(b *Bench) error { return repeatBobnet(b, e, Yellowfin()) })
		}
		was := fast(func(*Ethernet) {})
		moves(t, "devices", 0.3, was, fast(func(e *Ethernet) { e.Devices = time.Nanosecond }), "fig5.one_way_us")
		moves(t, "kernel", 0.15, was, fast(func(e *Ethernet) { e.Routine, e.PerFull = 0, 0 }), "fig5.one_way_us")
		moves(t, "turn", 0.15, was, fast(func(e *Ethernet) { e.Turn = 0 }), "fig5.one_way_us")
		moves(t, "cable", 0.5, was, fast(func(e *Ethernet) { e.Bandwidth *= 10 }), "fig3.bandwidth_mbps", "fig6.bobnet_intel", "fig6.bobnet_tulip")
	})
	t.Run("vmmc", vmmcMechanisms)
	t.Run("splitc", splitcMechanisms)
	t.Run("am2 of two hosts", am2Pair)
	t.Run("am2 of many hosts", am2Many)
}

func vmmcMechanisms(t *testing.T) {
	model := func(change func(m *vmmcModel)) *vmmcModel {
		m := newVMMCModel()
		change(m)
		return m
	}
	run := func(change func(m *vmmcModel)) map[string]float64 {
		return repeat(t, vmmcPaper(), func(b *Bench) error {
			for _, run := range []func(*Bench, *vmmcModel) error{repeatHardware, repeatLatency, repeatRates, repeatCalls} {
				if err := run(b, model(change)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	was := run(func(*vmmcModel) {})
	moves(t, "bus", 0.4, was, run(func(m *vmmcModel) { m.timing.DMABandwidth = 0 }), "fig1.dma_64k", "fig3.one_way", "fig3.both_ways")
	moves(t, "start of a DMA", 0.003, was, run(func(m *vmmcModel) { m.timing.DMASetup = 0 }), "fig1.dma_64k", "fig2.one_word_us")
	moves(t, "pipelining", 0.15, was, run(func(m *vmmcModel) { m.serial = true }), "fig3.one_way", "sec5.3.share")
	moves(t, "the cost of leaving the tight loop", 0.02, was, run(func(m *vmmcModel) { m.costs.Leave = 0 }), "fig3.both_ways")
	moves(t, "the program's steps", 0.3, was, run(func(m *vmmcModel) { m.costs = vmmclanai.Costs{} }), "fig2.one_word_us")
	moves(t, "the host's processor", 0.1, was, run(func(m *vmmcModel) { m.send = 0 }), "fig2.one_word_us")
	moves(t, "copies", 1, was, run(func(m *vmmcModel) { m.bcopy = math.Inf(1) }), "sec5.4.vrpc")

	// A TLB that knows a page needs no interrupt: refills cost only who sends for the first time.
	const size = 1 << 17
	slow := model(func(m *vmmcModel) { m.timing.Interrupt *= 10 })
	for _, test := range []struct {
		what    string
		measure func(m *vmmcModel) (float64, error)
		moves   bool
	}{
		{"a message for the first time", func(m *vmmcModel) (float64, error) { return m.cold(context.Background(), size) }, true},
		{"a message again", func(m *vmmcModel) (float64, error) { return m.exchange(context.Background(), size, 128, false) }, false},
	} {
		a, err := test.measure(newVMMCModel())
		if err != nil {
			t.Fatal(err)
		}
		b, err := test.measure(slow)
		if err != nil {
			t.Fatal(err)
		}
		if (b > a+80) != test.moves {
			t.Errorf("%s takes %v us, with slow interrupts %v", test.what, a, b)
		}
	}
}

// splitcMechanisms: what the doorbells, the credits and the rules of the layers do. The paper
// has 15 of AMVIA's 53 us be the wait for a doorbell, a share of 0.28. Reads and writes of two
// processes take as long as one's because who waits for a reply serves the other one meanwhile
// (section 6.2).
func splitcMechanisms(t *testing.T) {
	run := func(change func(m *viaModel)) map[string]float64 {
		m := newVIAModel()
		change(m)
		return repeat(t, splitcPaper(), func(b *Bench) error {
			return errors.Join(repeatAMVIA(b, m), repeatPrimitives(b, m), repeatBulk(b, m))
		})
	}
	was := run(func(*viaModel) {})
	moves(t, "the scan of the doorbells", 0.2, was, run(func(m *viaModel) { m.costs.Scan = 0 }), "sec6.1.amvia_us", "table6-1.l_us", "table6-1.g_us")
	moves(t, "the scan of the doorbells", 0.2, was, run(func(m *viaModel) { m.costs.Scan = 0 }), "sec6.1.of_now", "fig6-3.both_store")
	moves(t, "the card's time to receive", 0.05, was, run(func(m *viaModel) { m.costs.Receive = 0 }), "table6-1.g_us", "table6-1.l_us")
	moves(t, "half of the credits", 0.4, was, run(func(m *viaModel) { m.credits[viaShort] /= 2 }), "fig6-2.knee")
	moves(t, "several requests under way", 0.3, was, run(func(m *viaModel) { m.credits[viaShort] = 1 }), "fig6-3.both_get", "fig6-3.both_put", "fig6-4.small")
	moves(t, "the poll routine", 0.1, was, run(func(m *viaModel) { m.poll = 0 }), "sec6.1.amvia_us", "table6-1.l_us")
	moves(t, "several stores under way", 0.3, was, run(func(m *viaModel) { m.credits[viaShort] = 1 }), "fig6-3.both_store")
	moves(t, "stores without replies", 0.3, was, run(func(m *viaModel) { m.answered = true }), "fig6-3.stores_reliable", "fig6-3.stores_unreliable")
	moves(t, "the wait for replies", 0.5, was, run(func(m *viaModel) { m.phased = true }), "fig6-3.both_read", "fig6-3.both_write")
	t.Run("applications", splitcApplications)
}

// am2Pair: what protocols and GAM's pipelining do to two hosts.
func am2Pair(t *testing.T) {
	values := func(change func(c *lanai.Config)) map[string]float64 {
		c := nowConfig()
		change(&c)
		l, err := measureLogP(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		rate, err := amBandwidth(context.Background(), c, amMedium)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]float64{"fig5.rtt_us": l.rtt, "fig5.l_us": l.latency, "fig5.g_us": l.gap, "8 KB": rate}
	}
	was := values(func(*lanai.Config) {})
	moves(t, "reliability", 0.3, was, values(func(c *lanai.Config) { c.Unreliable = true }), "fig5.g_us")
	moves(t, "reliability", 0.05, was, values(func(c *lanai.Config) { c.Unreliable = true }), "fig5.l_us", "fig5.rtt_us")
	moves(t, "protection", 0.05, was, values(func(c *lanai.Config) { c.Unprotected = true }), "fig5.g_us", "fig5.l_us", "fig5.rtt_us")
	moves(t, "virtual networks", 0.3, was, values(func(c *lanai.Config) { c.Unnamed = true }), "fig5.rtt_us", "fig5.l_us")
	moves(t, "a pipeline that waits", 0.2, was, values(func(c *lanai.Config) { c.Pipelined = true }), "8 KB")
	moves(t, "the bus's slow reads", 0.3, was, values(func(c *lanai.Config) {
		timing := *c.Card.Timing
		timing.DMAFetch = 0
		c.Card.Timing = &timing
	}), "8 KB")
}

// am2Many: what makes the rates of many hosts.
func am2Many(t *testing.T) {
	const d = 20 * time.Millisecond
	exchange := func(change func(t *myrinet.Timing)) map[string]float64 {
		c := nowConfig()
		change(c.Card.Timing)
		long := func(h *amHost) func() error { return h.medium(amMedium) }
		got, err := measureCrowd(context.Background(), c, 8, 4, d, one, func(host int) amTarget { return amTarget{host: host ^ 1} }, long)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]float64{"table1.neighbor_bw": got.all}
	}
	moves(t, "the time of stores", 0.05, exchange(func(*myrinet.Timing) {}), exchange(func(t *myrinet.Timing) { t.DMABandwidth = 0 }), "table1.neighbor_bw")

	// With a frame for each endpoint none has to take turns.
	threads := func(frames int) map[string]float64 {
		c := nowConfig()
		c.Frames = frames
		got, err := measureThreads(context.Background(), c, 14, 5*d)
		if err != nil {
			t.Fatal(err)
		}
		slowest, fastest := got.spread()
		return map[string]float64{"fig11.slowest": slowest, "fig11.fastest": fastest}
	}
	moves(t, "too few frames", 0.5, threads(0), threads(16), "fig11.slowest", "fig11.fastest")
}

// splitcApplications: what keeps shapes of figure 6-5 from holding is the scan of the
// doorbells, as the document says, and unreliable VIA is ahead because messages that go both
// ways give credits back.
func splitcApplications(t *testing.T) {
	b := &Bench{Context: context.Background()}
	takes := func(change func(m *viaModel), layer string, procs int, app application) time.Duration {
		m := newVIAModel()
		change(m)
		d, err := m.measureApplication(b, layer, procs, app)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	asIs, noScan := func(*viaModel) {}, func(m *viaModel) { m.costs.Scan = 0 }
	cholesky := skeleton.Cholesky{N: 1536, Down: 12, Over: 8}
	if few, many := takes(asIs, overAM, 8, cholesky), takes(asIs, overAM, 16, cholesky); many < few {
		t.Errorf("Cholesky over AMVIA takes %v on 8 processors and %v on 16: want more", few, many)
	}
	for _, layer := range overVIA {
		if few, many := takes(noScan, layer, 8, cholesky), takes(noScan, layer, 16, cholesky); many > few {
			t.Errorf("without the scan of the doorbells Cholesky over %s takes %v on 8 processors and %v on 16: want less", layer, few, many)
		}
	}
	onNOW := takes(asIs, overNOW, 16, cg)
	if with, without := takes(asIs, overUnreliable, 16, cg), takes(noScan, overUnreliable, 16, cg); with < onNOW || without > onNOW {
		t.Errorf("conjugate gradient takes %v over unreliable VIA, without the scan of the doorbells %v, and %v on the NOW: want it between", with, without, onNOW)
	}
	if reliable, unreliable := takes(asIs, overReliable, 16, cg), takes(asIs, overUnreliable, 16, cg); unreliable > reliable*95/100 {
		t.Errorf("conjugate gradient takes %v over unreliable VIA, and %v over reliable VIA", unreliable, reliable)
	}
	answered := func(m *viaModel) { m.answered = true }
	if reliable, unreliable := takes(answered, overReliable, 16, cg), takes(answered, overUnreliable, 16, cg); unreliable < reliable*98/100 {
		t.Errorf("with answers to stores conjugate gradient takes %v over unreliable VIA, and %v over reliable VIA: want no difference", unreliable, reliable)
	}
}
