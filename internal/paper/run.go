package paper

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/bobnet-go/bobnet/internal/plot"
)

// Experiment runs programs in virtual time and sets items.
type Experiment struct {
	Name  string
	Items []string // those that it sets
	Run   func(*Bench) error
}

// Figure is a drawing, as the paper has it: ours, and what is published of it.
type Figure struct {
	Name   string // of the file, without its extension
	Text   string // what it shows
	Panels []plot.Panel
}

// Bench is what an experiment gets to work with.
type Bench struct {
	Context context.Context
	brief   bool // experiments count for a tenth of their time, which tests are content with
	paper   *Paper
	values  map[string]float64
	figures []Figure
	err     error
}

// Set gives our value of an item.
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

// Holds says whether a shape holds.
func (b *Bench) Holds(item string, holds bool) {
	if holds {
		b.Set(item, 1)
	} else {
		b.Set(item, 0)
	}
}

// span is for how long an experiment counts.
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
	Rows    []Row // an item each, in the order of the paper's table
	Figures []Figure
}

// Progress is told what begins, and how many of all experiments are done.
type Progress func(done, all int, what string)

// Run repeats papers, one experiment after the other. An experiment that fails ends it.
func Run(ctx context.Context, papers []*Paper, progress Progress) ([]Result, error) {
	return run(ctx, papers, false, progress)
}

func run(ctx context.Context, papers []*Paper, brief bool, progress Progress) ([]Result, error) {
	all, done := 0, 0
	for _, p := range papers {
		all += len(p.Experiments)
	}
	var results []Result
	for _, p := range papers {
		b := &Bench{Context: ctx, brief: brief, paper: p, values: map[string]float64{}}
		for _, e := range p.Experiments {
			progress(done, all, p.Name+": "+e.Name)
			if err := b.do(&e); err != nil {
				return results, err
			}
			done++
		}
		results = append(results, b.result())
	}
	progress(done, all, "")
	return results, nil
}

// do runs an experiment and checks that it has set what it said.
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

func (b *Bench) result() Result {
	r := Result{Paper: b.paper, Figures: b.figures}
	for i := range b.paper.Items {
		item := &b.paper.Items[i]
		r.Rows = append(r.Rows, item.row(b.paper.Name, b.value(item)))
	}
	return r
}

// value returns our value of an item, NaN for what was not measured.
func (b *Bench) value(i *Item) float64 {
	if i.computed() {
		return i.From.value(func(name string) float64 { return b.value(b.paper.item(name)) })
	}
	if v, have := b.values[i.Name]; have {
		return v
	}
	return math.NaN()
}
