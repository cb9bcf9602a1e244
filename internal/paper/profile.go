package paper

import (
	"fmt"
	"math"
)

// Source is the origin of a constant's value.
type Source string

// The sources of constants.
const (
	ByItem Source = "input"  // one published number fixed it
	Stated Source = "paper"  // the paper states it as a property of its system
	Chosen Source = "choice" // no published number fixes it
)

// Constant is one number of a profile.
type Constant struct {
	Name   string
	Value  float64
	Unit   string
	Source Source
	Item   string // the input that fixed it, for the source ByItem
	Why    string // how the value was chosen, or why no published number fixes it

	// scale multiplies a choice in a model. It reports whether the model is of the type that has
	// the choice.
	scale func(model any, by float64) bool
	in    []string // the experiments that Sensitivity repeats with a choice changed; nil for all
}

// fixed returns a constant that an input fixed.
func fixed(name string, value float64, unit, item, why string) Constant {
	return Constant{Name: name, Value: value, Unit: unit, Source: ByItem, Item: item, Why: why}
}

// stated returns a constant that the paper states.
func stated(name string, value float64, unit, why string) Constant {
	return Constant{Name: name, Value: value, Unit: unit, Source: Stated, Why: why}
}

// chosen returns a constant that no published number fixes. scale multiplies it in a model.
func chosen[M any](name string, value float64, unit, why string, scale func(m M, by float64)) Constant {
	return Constant{Name: name, Value: value, Unit: unit, Source: Chosen, Why: why, scale: func(model any, by float64) bool {
		m, is := model.(M)
		if is {
			scale(m, by)
		}
		return is
	}}
}

// of limits Sensitivity to experiments.
func (c Constant) of(experiments ...string) Constant {
	c.in = experiments
	return c
}

// multiply multiplies whole numbers of a model.
func multiply[N ~int | ~int64](by float64, numbers ...*N) {
	for _, n := range numbers {
		*n = N(math.Round(float64(*n) * by))
	}
}

// by returns what fixed the constant, for the table of constants.
func (c *Constant) by() string {
	switch c.Source {
	case ByItem:
		return "`" + c.Item + "`"
	case Stated:
		return "the paper"
	}
	return "a choice"
}

// Profile is the hardware of a paper, as the model has it.
type Profile struct {
	Name      string
	Is        string // the machines
	Constants []Constant
}

// Paper is one paper: its published results, its hardware, and the experiments that repeat the
// results.
type Paper struct {
	Name        string // as in the flag --only
	Title       string
	Notes       []string // what a reader must know before the numbers
	Profiles    []Profile
	Items       []Item
	Left        []Left
	Experiments []Experiment
	Figures     []string // the names of the experiments' figures, in the paper's order
}

// Left is a published number that is not repeated.
type Left struct {
	Place, Says string // its place in the paper; what it is, with its value
	Why         string // why it is not repeated
}

// markdown returns the number's line of the document.
func (l *Left) markdown() string { return fmt.Sprintf("- %s (%s): %s.\n", l.Says, l.Place, l.Why) }

// item returns the item with a name, or nil.
func (p *Paper) item(name string) *Item {
	for i := range p.Items {
		if p.Items[i].Name == name {
			return &p.Items[i]
		}
	}
	return nil
}

// sources returns how many constants of the paper's profiles have each source.
func (p *Paper) sources() string {
	n := map[Source]int{}
	for _, profile := range p.Profiles {
		for _, c := range profile.Constants {
			n[c.Source]++
		}
	}
	return fmt.Sprintf("Of %d constants, %d are each fixed by one published number, %d are stated by the paper, and %d are choices.", n[ByItem]+n[Stated]+n[Chosen], n[ByItem], n[Stated], n[Chosen])
}

// Papers returns all papers, in the order in which they are repeated.
func Papers() []*Paper { return []*Paper{am2Paper(), vmmcPaper(), bobnetPaper(), splitcPaper()} }
