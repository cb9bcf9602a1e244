package paper

import (
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// Experiment runs programs in virtual time and sets items.
type Experiment struct {
	Name  string
	Items []string // the items that the experiment sets
	On    Basis    // the object that it measures
	Run   func(*Bench) error
}

// Figure is a drawing of the paper, with our curves and the published ones.
type Figure struct {
	Name   string // of the file, without its extension
	Text   string // caption
	Panels []plot.Panel
}

// Bench is the environment of an experiment.
type Bench struct {
	Context context.Context
	brief   bool            // experiments count for a tenth of their time, which is enough for tests
	change  func(model any) // changes the model of an experiment; nil for none
	paper   *Paper
	values  map[string]float64
	beside  map[string]float64 // values measured on code, for items whose value is that of a model
	figures []Figure
	err     error
}

// Set records our value of an item.
func (b *Bench) Set(item string, value float64) {
	switch {
	case b.paper.item(item) == nil:
		b.err = fmt.Errorf("paper: %s has no item %q: add it to the table of items", b.paper.Name, item)
	case b.paper.item(item).computed():
		b.err = fmt.Errorf("paper: %s: %s is arithmetic of other items: it is computed, not set", b.paper.Name, item)
	case math.IsNaN(value) || math.IsInf(value, 0):
		b.err = fmt.Errorf("paper: the value of %s is %v: the experiment measured nothing", item, value)
	default:
		b.values[item] = value
	}
}

// Holds records whether a shape holds.
func (b *Bench) Holds(item string, holds bool) {
	b.Set(item, truth(holds))
}

// Beside records the value of an item measured on code, if our value is that of a model.
func (b *Bench) Beside(item string, value float64) {
	switch i := b.paper.item(item); {
	case i == nil || b.paper.on(i) != OnModel:
		b.err = fmt.Errorf("paper: %s: %s has no value of a model", b.paper.Name, item)
	case math.IsNaN(value) || math.IsInf(value, 0):
		b.err = fmt.Errorf("paper: the value of %s on code is %v: the experiment measured nothing", item, value)
	default:
		b.beside[item] = value
	}
}

// truth is the value of a shape.
func truth(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// span returns for how long an experiment counts.
func (b *Bench) span(d time.Duration) time.Duration {
	if b.brief {
		return d / 10
	}
	return d
}

// Draw adds a figure.
func (b *Bench) Draw(f Figure) { b.figures = append(b.figures, f) }

// Result is a paper, repeated.
type Result struct {
	Paper   *Paper
	Rows    []Row // one row for each item, in the order of the paper's table
	Figures []Figure
}

// Progress is called when an experiment begins, with its number, the number of all experiments and
// its name. At the end it is called with an empty name.
type Progress func(n, all int, what string)

// Run repeats papers. It runs one experiment at a time on each processor. An experiment that fails
// ends Run.
func Run(ctx context.Context, papers []*Paper, progress Progress) ([]Result, error) {
	return repeat(ctx, papers, false, progress)
}

func repeat(ctx context.Context, papers []*Paper, brief bool, progress Progress) ([]Result, error) {
	var parts []part
	for _, p := range papers {
		parts = append(parts, p.parts(ctx, brief, p.Name, nil)...)
	}
	if err := runParts(parts, progress); err != nil {
		return nil, err
	}
	var results []Result
	for _, p := range papers {
		results = append(results, p.result(parts))
	}
	return results, nil
}

// part is an experiment that runs with its own bench.
type part struct {
	what       string
	bench      *Bench
	experiment *Experiment
	optional   bool // its error does not end the other parts
}

// parts are the experiments of a paper, with its model changed.
func (p *Paper) parts(ctx context.Context, brief bool, what string, change func(model any)) (all []part) {
	for i := range p.Experiments {
		e := &p.Experiments[i]
		all = append(all, part{what: what + ": " + e.Name, bench: &Bench{Context: ctx, brief: brief, change: change, paper: p, values: map[string]float64{}, beside: map[string]float64{}}, experiment: e})
	}
	return all
}

// runParts runs parts on all processors and returns the first part's error.
func runParts(parts []part, progress Progress) error {
	var (
		mutex   sync.Mutex
		next    int
		failed  bool
		errs    = make([]error, len(parts))
		workers sync.WaitGroup
	)
	begin := func() (n int, ok bool) {
		mutex.Lock()
		defer mutex.Unlock()
		if failed || next == len(parts) {
			return 0, false
		}
		progress(next+1, len(parts), parts[next].what)
		next++
		return next - 1, true
	}
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		workers.Go(func() {
			for n, ok := begin(); ok; n, ok = begin() {
				p := &parts[n]
				err := p.bench.do(p.experiment)
				if p.bench.err = err; err != nil && (!p.optional || context.Cause(p.bench.Context) != nil) {
					errs[n] = err
					mutex.Lock()
					failed = true
					mutex.Unlock()
				}
			}
		})
	}
	workers.Wait()
	progress(len(parts), len(parts), "")
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// do runs an experiment and checks that it has set all items that it declares.
func (b *Bench) do(e *Experiment) error {
	if err := context.Cause(b.Context); err != nil {
		return err
	}
	if err := e.Run(b); err != nil {
		return fmt.Errorf("paper: %s, %s: %w", b.paper.Name, e.Name, err)
	}
	for _, item := range e.Items {
		if _, have := b.values[item]; !have && b.err == nil {
			b.err = fmt.Errorf("paper: %s, %s: it has not set %s", b.paper.Name, e.Name, item)
		}
	}
	return b.err
}

// result collects the values and figures of a paper's experiments.
func (p *Paper) result(parts []part) Result {
	all := &Bench{paper: p, values: map[string]float64{}, beside: map[string]float64{}}
	for _, part := range parts {
		if part.bench.paper == p {
			maps.Copy(all.values, part.bench.values)
			maps.Copy(all.beside, part.bench.beside)
			all.figures = append(all.figures, part.bench.figures...)
		}
	}
	r := Result{Paper: p, Figures: all.figures}
	for i := range p.Items {
		row := p.row(&p.Items[i], all.value(&p.Items[i]))
		if v, have := all.beside[row.Item]; have {
			row.Code = &v
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// modelOf returns a model with the change of the bench applied.
func modelOf[M any](b *Bench, model M) M {
	if b.change != nil {
		b.change(model)
	}
	return model
}

// value returns our value of an item, NaN if it was not measured.
func (b *Bench) value(i *Item) float64 {
	if i.computed() {
		return i.From.value(func(name string) float64 { return b.value(b.paper.item(name)) })
	}
	if v, have := b.values[i.Name]; have {
		return v
	}
	return math.NaN()
}
