package paper

import (
	"math"
	"slices"
)

// Kind tells what our value of an item is worth: see the package comment.
type Kind string

// The kinds of items.
const (
	Input   Kind = "input"
	Output  Kind = "output"
	Derived Kind = "derived"
	Shape   Kind = "shape"
)

// Basis names the object on which our value of an item was measured.
type Basis string

// What values are measured on.
const (
	OnCode     Basis = "code"       // Bobnet's packages and control programs, on emulated hardware in virtual time
	OnModel    Basis = "model"      // a program of this package that follows the paper's rules in place of Bobnet's packages
	OnConstant Basis = "constant"   // nothing: our value is the constant of the model that the number fixed
	OnNumbers  Basis = "arithmetic" // nothing: our value is computed from those of other items
)

// Near is how far an output may lie from the published value, as a share of it.
const Near = 0.15

// Item is a published number, or a shape.
type Item struct {
	Name      string  // the figure, table or section, and what of it: "fig6.slope_us_per_byte"
	Place     string  // where the paper has it
	Says      string  // what the number measures; for a shape, the property
	Kind      Kind    //
	Published float64 // 0 for a shape
	Unit      string
	On        Basis  // basis of our value, if it is not that of the experiment
	Below     bool   // the published number is one that ours must stay under
	Computed  bool   // the paper has no such measurement: the published number is arithmetic of its other numbers
	Why       string // why there is no value of ours, or why it is further away than Near
	From      *From  // of which other items the published number is arithmetic; nil for none
}

// Row is an item with our value.
type Row struct {
	Paper     string   `json:"paper"`
	Item      string   `json:"item"`
	Published *float64 `json:"published"`      // null for a shape
	Ours      *float64 `json:"ours"`           // null if not measured; for a shape 1 if it holds, 0 if not
	Code      *float64 `json:"code,omitempty"` // of a row whose value is a model's, that of Bobnet's code
	Kind      Kind     `json:"kind"`
	On        Basis    `json:"on"` // what ours is measured on
	Unit      string   `json:"unit,omitempty"`
	Deviation *float64 `json:"deviation,omitempty"` // ours over published, less 1
	Place     string   `json:"place"`
	Says      string   `json:"says"`
	Why       string   `json:"why,omitempty"`
	Follows   string   `json:"follows,omitempty"` // how it is arithmetic of other rows
	below     bool
	computed  bool // Item.Computed
	measured  bool // by itself, and not computed from other rows
}

// row returns an item's row. ours is NaN if it was not measured.
func (p *Paper) row(i *Item, ours float64) Row {
	r := Row{Paper: p.Name, Item: i.Name, Kind: i.Kind, On: p.on(i), Unit: i.Unit, Place: i.Place, Says: i.Says, Why: i.Why, below: i.Below, computed: i.Computed, measured: !i.computed()}
	if i.From != nil {
		r.Follows = i.From.How
	}
	if i.Kind != Shape {
		r.Published = &i.Published
	}
	if math.IsNaN(ours) {
		return r
	}
	r.Ours = &ours
	if i.Kind != Shape {
		deviation := ours/i.Published - 1
		r.Deviation = &deviation
	}
	return r
}

// Good reports whether the row is as it should be: measured, a shape that holds, a value
// within Near of the published one, and below it where it must be.
func (r *Row) Good() bool {
	switch {
	case r.Ours == nil:
		return false
	case r.Kind == Shape:
		return *r.Ours == 1
	case r.below && *r.Ours >= *r.Published:
		return false
	}
	return math.Abs(*r.Deviation) <= Near
}

// on returns what our value of an item is measured on.
func (p *Paper) on(i *Item) Basis {
	switch {
	case i.On != "":
		return i.On
	case i.computed():
		return OnNumbers
	}
	for _, e := range p.Experiments {
		if slices.Contains(e.Items, i.Name) {
			return e.On
		}
	}
	return ""
}
