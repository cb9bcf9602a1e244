package paper

import (
	"math"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/paper/skeleton"
	"github.com/bobnet-go/bobnet/internal/plot"
)

// run is an application of the paper.
type run struct {
	name   string
	title  string
	app    application
	scaled bool // its work grows with the processors
}

// applications returns the paper's applications, with the paper's sizes where it states them. If
// all steps of an application are alike, only a few steps run.
func (m *viaModel) applications() []run {
	return []run{
		{"fft3d", "3D FFT", skeleton.FFT3D{N: 128}, false},
		{"cg", "Conjugate gradient", m.cg, false},
		{"cholesky", "Cholesky", skeleton.Cholesky{N: 1536, Down: 12, Over: 8}, false},
		{"em3d", "EM3D", m.em3d, true},
		{"raytrace", "Ray tracing", m.teapot, false},
	}
}

// Parameters of the applications that the paper does not specify. The picture is smaller than that
// of examples/raytrace, which is sized for today's processors.
var (
	cg     = skeleton.CG{N: 4096, Row: 128, Steps: 10}
	em3d   = skeleton.EM3D{Particles: 500, Degree: 20, Remote: 0.3, Steps: 2, Single: true}
	teapot = skeleton.Raytrace{Width: 240, Height: 180, Tile: 16, Pixel: 10000, Teapot: 4}
)

// speeds are the speeds of an application over one layer, or on the NOW, by number of processors.
// The speed of one processor of the Millennium is 1.
type speeds map[int]float64

// atOnce has the numbers of processors on which the applications run.
var atOnce = []int{2, 4, 8, 16}

// The layers of figure 6-5.
const (
	overNOW        = "NOW"
	overAM         = "AMVIA"
	overShared     = "AMVIA, shared memory"
	overReliable   = "reliable VIA"
	overUnreliable = "unreliable VIA"
)

var overAll = []string{overNOW, overAM, overReliable, overUnreliable, overShared}

// overVIA are the layers over VIA on which all applications run.
var overVIA = []string{overAM, overReliable, overUnreliable}

// figure5 has the values of figure 6-5: speeds by application and layer.
type figure5 map[string]map[string]speeds

// repeatApplications measures figure 6-5.
func repeatApplications(b *Bench, m *viaModel) error {
	f := figure5{}
	sizes := atOnce
	if b.brief {
		sizes = []int{2, 8, 16}
	}
	for _, a := range m.applications() {
		f[a.name] = map[string]speeds{}
		alone, err := serial(m.rate(), a.app)
		if err != nil {
			return err
		}
		for _, layer := range overAll {
			f[a.name][layer] = speeds{1: 1}
			if layer == overNOW {
				f[a.name][layer][1] = m.now
			}
			for _, n := range sizes {
				if layer == overShared && !sharedRuns(a.name, n) {
					continue
				}
				d, err := m.measureApplication(b, layer, n, a.app)
				if err != nil {
					return err
				}
				f[a.name][layer][n] = float64(alone) / float64(d)
				if a.scaled {
					f[a.name][layer][n] *= float64(n)
				}
			}
		}
	}
	b.Set("abstract.clock_mhz", m.clock/1e6)
	f.judge(b, sizes)
	f.draw(b)
	return nil
}

// sharedRuns reports whether the paper has results with shared memory for an application and a
// number of processes.
func sharedRuns(app string, procs int) bool {
	return app == "fft3d" || procs == 2 && (app == "cholesky" || app == "raytrace")
}

// measureApplication returns how long an application takes.
func (m *viaModel) measureApplication(b *Bench, over string, procs int, app application) (time.Duration, error) {
	layer := m.amvia()
	switch over {
	case overNOW:
		return applyNow(b.Context, nowConfig(), topology.NOW(), m.nowRate(), procs, app)
	case overShared:
		layer.shared = true
	case overReliable:
		layer = m.reliable()
	case overUnreliable:
		layer = m.unreliable()
	}
	return m.apply(b.Context, layer, procs, app)
}

// judge records which of the paper's findings hold.
func (f figure5) judge(b *Bench, sizes []int) {
	most := sizes[len(sizes)-1]
	b.Holds("fig6-5.unreliable", f.mean(overUnreliable, sizes) > f.mean(overAM, sizes) && f.ahead(sizes))
	b.Holds("fig6-5.fft3d_now", f["fft3d"][overNOW][most] < 1.1*f["fft3d"][overNOW][8])
	b.Holds("fig6-5.fft3d_shared", f["fft3d"][overShared].slower(f["fft3d"][overAM], sizes[1:]))
	best, poor, stores := true, true, true
	for _, layer := range append([]string{overNOW}, overVIA...) {
		for _, a := range newVIAModel().applications() {
			best = best && f.scaling(a.name, layer, most) <= f.scaling("raytrace", layer, most)
		}
		poor = poor && f.scaling("cg", layer, most) < float64(most)/2 && f.scaling("em3d", layer, most) < float64(most)/2
	}
	for _, layer := range []string{overReliable, overUnreliable} {
		stores = stores && f["cg"][overAM].slower(f["cg"][layer], sizes) && f["em3d"][overAM].slower(f["em3d"][layer], sizes)
	}
	b.Holds("fig6-5.raytrace", best)
	b.Holds("fig6-5.poor", poor)
	b.Holds("fig6-5.stores", stores)
	b.Holds("fig6-5.cg_now", f["cg"][overNOW][most] < f["cg"][overNOW][2])
	past := true
	for _, layer := range overVIA {
		for i := 1; i < len(sizes); i++ {
			past = past && f["cholesky"][layer][sizes[i]] > f["cholesky"][layer][sizes[i-1]]
		}
	}
	b.Holds("fig6-5.cholesky", past)
	b.Holds("fig6-5.cholesky_shared", f["cholesky"][overShared][2] > 1.8)
	b.Holds("fig6-5.cholesky_now", f.nowLeads("cholesky", most))
	only := true
	for _, a := range newVIAModel().applications() {
		only = only && (a.name == "cholesky" || !f.nowLeads(a.name, most))
	}
	b.Holds("fig6-5.only_cholesky_now", only)
}

// scaling returns the speed-up of an application over one processor of the same kind.
func (f figure5) scaling(app, layer string, procs int) float64 {
	return f[app][layer][procs] / f[app][layer][1]
}

// slower reports whether s is slower than other at all numbers of processors in sizes.
func (s speeds) slower(other speeds, sizes []int) bool {
	for _, n := range sizes {
		if s[n] >= other[n] {
			return false
		}
	}
	return true
}

// mean is the geometric mean of all applications' speeds over a layer.
func (f figure5) mean(layer string, sizes []int) float64 {
	sum, n := 0.0, 0
	for _, a := range newVIAModel().applications() {
		for _, procs := range sizes {
			sum, n = sum+math.Log(f[a.name][layer][procs]), n+1
		}
	}
	return math.Exp(sum / float64(n))
}

// ahead reports whether unreliable VIA is slightly ahead of reliable VIA.
func (f figure5) ahead(sizes []int) bool {
	ratio := f.mean(overUnreliable, sizes) / f.mean(overReliable, sizes)
	return ratio > 1 && ratio < 1.1
}

// nowLeads reports whether the NOW is faster than all layers over VIA.
func (f figure5) nowLeads(app string, procs int) bool {
	for _, layer := range overVIA {
		if f[app][layer][procs] >= f[app][overNOW][procs] {
			return false
		}
	}
	return true
}

// draw draws the figure in two parts, with one panel for each application.
func (f figure5) draw(b *Bench) {
	var panels []plot.Panel
	for _, a := range newVIAModel().applications() {
		p := plot.Panel{Title: a.title, X: "processors", Y: "speed (one Millennium processor = 1)", Linear: true}
		for _, layer := range overAll {
			s := plot.Series{Name: layer}
			for _, n := range append([]int{1}, atOnce...) {
				if v, have := f[a.name][layer][n]; have && (n > 1 || !a.scaled) {
					s.Points = append(s.Points, plot.Point{X: float64(n), Value: v})
				}
			}
			if len(s.Points) < 2 {
				s.Points = nil // the legend is the same for all panels
			}
			p.Series = append(p.Series, s)
		}
		panels = append(panels, p)
	}
	b.Draw(Figure{"splitc-figure6-5-regular", "Speeds of 3D FFT, conjugate gradient and Cholesky by layer", panels[:3]})
	b.Draw(Figure{"splitc-figure6-5-irregular", "Speeds of EM3D and ray tracing by layer", panels[3:]})
}
