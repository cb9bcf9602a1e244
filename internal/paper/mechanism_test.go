package paper

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
	vmmclanai "github.com/bobnet-go/bobnet/vmmc/lanai"
)

// mechanisms are the mechanisms of a paper's model, with the outputs that each changes.
type mechanisms struct {
	*testing.T
	paper *Paper
	moved map[string]bool // by items
}

// repeat runs an experiment. It returns the values that the experiment sets, and the values that
// are computed from them.
func (x *mechanisms) repeat(run func(b *Bench) error) map[string]float64 {
	x.Helper()
	b := &Bench{Context: context.Background(), brief: true, values: map[string]float64{}, paper: x.paper,
		change: func(any) {}} // only models are measured
	if err := run(b); err != nil {
		x.Fatal(err)
	}
	values := map[string]float64{}
	for i := range x.paper.Items {
		if v := b.value(&x.paper.Items[i]); !math.IsNaN(v) {
			values[x.paper.Items[i].Name] = v
		}
	}
	return values
}

// moves checks that the values of items change by at least a share when a mechanism is switched
// off.
func (x *mechanisms) moves(off string, by float64, was, is map[string]float64, items ...string) {
	x.Helper()
	for _, item := range items {
		if x.paper.item(item) == nil {
			x.Errorf("%s has no item %s", x.paper.Name, item)
		}
		x.moved[item] = true
		if moved := math.Abs(is[item]/was[item] - 1); moved < by || math.IsNaN(moved) {
			x.Errorf("without %s %s is %v, and %v with it: want a change of %v", off, item, is[item], was[item], by)
		}
	}
}

// TestMechanismsMatter checks that each measured output changes when its mechanism is switched off.
// Otherwise the output would be an input in disguise. The short form checks one paper.
func TestMechanismsMatter(t *testing.T) {
	if testing.Short() {
		t.Skip("repeats experiments of four papers many times")
	}
	for name, run := range map[string]func(x *mechanisms){"am2": am2Mechanisms, "vmmc": vmmcMechanisms, "bobnet": bobnetMechanisms, "splitc": splitcMechanisms} {
		t.Run(name, func(t *testing.T) {
			if name != "bobnet" {
				need.Long(t, "repeats experiments many times")
			}
			x := &mechanisms{T: t, moved: map[string]bool{}}
			for _, p := range Papers() {
				if p.Name == name {
					x.paper = p
				}
			}
			run(x)
			set := map[string]bool{}
			for _, e := range x.paper.Experiments {
				for _, item := range e.Items {
					set[item] = true
				}
			}
			for i := range x.paper.Items {
				item := &x.paper.Items[i]
				if measured := set[item.Name] || item.computed(); item.Kind == Output && measured && !x.moved[item.Name] {
					t.Errorf("nothing here moves %s: switch off what makes it", item.Name)
				}
			}
		})
	}
}

func bobnetMechanisms(x *mechanisms) {
	fast := func(change func(e *Ethernet)) map[string]float64 {
		e := FastEthernet()
		change(e)
		return x.repeat(func(b *Bench) error { return repeatBobnet(b, e, Yellowfin()) })
	}
	was := fast(func(*Ethernet) {})
	x.moves("devices", 0.3, was, fast(func(e *Ethernet) { e.Devices = time.Nanosecond }), "fig5.one_way_us")
	x.moves("kernel", 0.15, was, fast(func(e *Ethernet) { e.Routine, e.PerFull = 0, 0 }), "fig5.one_way_us")
	x.moves("turn", 0.15, was, fast(func(e *Ethernet) { e.Turn = 0 }), "fig5.one_way_us")
	x.moves("cable", 0.5, was, fast(func(e *Ethernet) { e.Bandwidth *= 10 }), "fig3.bandwidth_mbps", "fig6.bobnet_intel", "fig6.bobnet_tulip")
}

func vmmcMechanisms(x *mechanisms) {
	model := func(change func(m *vmmcModel)) *vmmcModel {
		m := newVMMCModel()
		change(m)
		return m
	}
	run := func(change func(m *vmmcModel)) map[string]float64 {
		return x.repeat(func(b *Bench) error {
			for _, run := range []func(*Bench, *vmmcModel) error{repeatHardware, repeatLatency, repeatRates, repeatCalls} {
				if err := run(b, model(change)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	was := run(func(*vmmcModel) {})
	x.moves("bus", 0.4, was, run(func(m *vmmcModel) { m.timing.DMABandwidth = 0 }), "fig1.dma_64k", "fig3.one_way", "fig3.both_ways")
	x.moves("start of a DMA", 0.003, was, run(func(m *vmmcModel) { m.timing.DMASetup = 0 }), "fig1.dma_64k", "fig2.one_word_us")
	x.moves("pipelining", 0.15, was, run(func(m *vmmcModel) { m.serial = true }), "fig3.one_way", "sec5.3.share")
	x.moves("the cost of leaving the tight loop", 0.02, was, run(func(m *vmmcModel) { m.costs.Leave = 0 }), "fig3.both_ways")
	x.moves("the program's steps", 0.3, was, run(func(m *vmmcModel) { m.costs = vmmclanai.Costs{} }), "fig2.one_word_us")
	x.moves("the host's processor", 0.1, was, run(func(m *vmmcModel) { m.send = 0 }), "fig2.one_word_us")
	x.moves("copies", 1, was, run(func(m *vmmcModel) { m.bcopy = math.Inf(1) }), "sec5.4.vrpc")

	// If a page is in the TLB, no interrupt is needed. Only the first send from a page pays for a
	// refill.
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
			x.Fatal(err)
		}
		b, err := test.measure(slow)
		if err != nil {
			x.Fatal(err)
		}
		if (b > a+80) != test.moves {
			x.Errorf("%s takes %v us, with slow interrupts %v", test.what, a, b)
		}
	}
}

// splitcMechanisms checks the effects of cards, poll routine, credits and the rules of the layers.
// In the paper, 15 of AMVIA's 53 us are the wait for a doorbell, a share of 0.28. Most of this is
// the card's time for a send. Reads and writes of two processes take as long as those of one
// process, because a process that waits for a reply serves the other one meanwhile (section 6.2).
func splitcMechanisms(x *mechanisms) {
	run := func(change func(m *viaModel)) map[string]float64 {
		m := newVIAModel()
		change(m)
		return x.repeat(func(b *Bench) error {
			return errors.Join(repeatAMVIA(b, m), repeatPrimitives(b, m), repeatBulk(b, m))
		})
	}
	was := run(func(*viaModel) {})
	x.moves("the looks at doorbells", 0.1, was, run(func(m *viaModel) { m.costs.Look = 0 }), "fig6-2.plateau_us")
	x.moves("the card's time to send", 0.1, was, run(func(m *viaModel) { m.costs.Send = 0 }), "fig6-2.plateau_us", "sec6.1.amvia_us", "table6-1.l_us", "sec6.1.of_now")
	x.moves("the card's time to receive", 0.05, was, run(func(m *viaModel) { m.costs.Receive = 0 }), "sec6.1.amvia_us", "table6-1.l_us", "fig6-3.both_store")
	x.moves("half of the credits", 0.4, was, run(func(m *viaModel) { m.credits[viaShort] /= 2 }), "fig6-2.knee")
	x.moves("several requests under way", 0.3, was, run(func(m *viaModel) { m.credits[viaShort] = 1 }), "fig6-3.both_get", "fig6-3.both_put", "fig6-4.small")
	x.moves("the poll routine", 0.1, was, run(func(m *viaModel) { m.poll = 0 }), "sec6.1.amvia_us", "table6-1.l_us")
	x.moves("send descriptors taken back", 0.3, was, run(func(m *viaModel) { m.recycle = 0 }), "table6-1.g_us")
	x.moves("several stores under way", 0.3, was, run(func(m *viaModel) { m.credits[viaShort] = 1 }), "fig6-3.both_store")
	x.moves("stores without replies", 0.3, was, run(func(m *viaModel) { m.answered = true }), "fig6-3.stores_reliable", "fig6-3.stores_unreliable")
	x.moves("the wait for replies", 0.5, was, run(func(m *viaModel) { m.phased = true }), "fig6-3.both_read", "fig6-3.both_write")
	if stays := run(func(m *viaModel) { m.recycle = 0 }); math.Abs(stays["sec6.1.amvia_us"]/was["sec6.1.amvia_us"]-1) > 0.001 {
		x.Errorf("one way takes %v us without the time for send descriptors, and %v with it: want none of it in either", stays["sec6.1.amvia_us"], was["sec6.1.amvia_us"])
	}
	x.Run("applications", splitcApplications)
}

// times returns how long an application takes over a layer, with the model changed.
func times(t *testing.T, change func(m *viaModel), layer string, procs int, app application) time.Duration {
	t.Helper()
	m := newVIAModel()
	change(m)
	d, err := m.measureApplication(&Bench{Context: context.Background()}, layer, procs, app)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// splitcApplications checks the causes of the shapes of figure 6-5 that the document states.
func splitcApplications(t *testing.T) {
	asIs := func(*viaModel) {}
	cholesky := skeleton.Cholesky{N: 1536, Down: 12, Over: 8}
	fewer := func(m *viaModel) { m.operation = 4 }
	if few, many := times(t, fewer, overAM, 4, cholesky), times(t, fewer, overAM, 8, cholesky); many < few {
		t.Errorf("with 4 cycles for an operation Cholesky over AMVIA takes %v on 4 processors and %v on 8: want more", few, many)
	}
	slow := func(m *viaModel) { m.now = 0.6 }
	if now, via := times(t, slow, overNOW, 16, cholesky), times(t, slow, overUnreliable, 16, cholesky); now < via {
		t.Errorf("with processors of the NOW 0.6 times as fast Cholesky takes %v there and %v over unreliable VIA: want more", now, via)
	}
	fast := func(m *viaModel) { m.now = 0.7 }
	if now, via := times(t, fast, overNOW, 16, cg), times(t, fast, overUnreliable, 16, cg); now > via {
		t.Errorf("with processors of the NOW 0.7 times as fast conjugate gradient takes %v there and %v over unreliable VIA: want less", now, via)
	}
	fft3d := skeleton.FFT3D{N: 128}
	for _, procs := range []int{4, 8, 16} {
		if shared, apart := times(t, asIs, overShared, procs, fft3d), times(t, asIs, overAM, procs, fft3d); shared <= apart {
			t.Errorf("3D FFT on %d processors takes %v with shared memory, and %v without: want more", procs, shared, apart)
		}
	}
	freeCard := func(m *viaModel) { m.costs = viaCosts{} }
	if shared, apart := times(t, freeCard, overShared, 16, fft3d), times(t, freeCard, overAM, 16, fft3d); shared > apart*21/20 {
		t.Errorf("with cards whose program takes no time 3D FFT takes %v with shared memory, and %v without: want at most a twentieth more", shared, apart)
	}
	if reliable, unreliable := times(t, asIs, overReliable, 16, cg), times(t, asIs, overUnreliable, 16, cg); unreliable > reliable*97/100 {
		t.Errorf("conjugate gradient takes %v over unreliable VIA, and %v over reliable VIA", unreliable, reliable)
	}
	answered := func(m *viaModel) { m.answered = true }
	if reliable, unreliable := times(t, answered, overReliable, 16, cg), times(t, answered, overUnreliable, 16, cg); unreliable < reliable*98/100 {
		t.Errorf("with answers to stores conjugate gradient takes %v over unreliable VIA, and %v over reliable VIA: want no difference", unreliable, reliable)
	}
	acrossNOW(t, fft3d)
}

// acrossNOW checks that an application scales as well on hosts of all sub-clusters of the NOW as on
// neighbouring hosts. So the bandwidth between the sub-clusters does not limit the application.
func acrossNOW(t *testing.T, app application) {
	m := newVIAModel()
	spread := topology.NOW()
	for i := range spread.Cables { // host i is the one that was host 7i, around the list of 100
		for _, p := range []*topology.Plug{&spread.Cables[i].A, &spread.Cables[i].B} {
			if p.Host {
				p.Node = p.Node * 43 % len(spread.Hosts)
			}
		}
	}
	var takes []time.Duration
	for _, procs := range []int{8, 16} {
		d, err := applyNow(context.Background(), nowConfig(), spread, m.nowRate(), procs, app)
		if err != nil {
			t.Fatal(err)
		}
		takes = append(takes, d)
	}
	if takes[1] > takes[0]*2/3 {
		t.Errorf("on 16 hosts across the NOW 3D FFT takes %v, on 8 %v: want it to go on", takes[1], takes[0])
	}
}
