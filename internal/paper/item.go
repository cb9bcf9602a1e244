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

// The objects on which values are measured.
const (
	OnCode     Basis = "code"       // Bobnet's packages and control programs, on emulated hardware in virtual time
	OnModel    Basis = "model"      // a program of this package that follows the paper's rules in place of Bobnet's packages
	OnConstant Basis = "constant"   // nothing: our value is the constant of the model that the number fixed
	OnNumbers  Basis = "arithmetic" // nothing: our value is computed from the values of other items
)

// Near is the maximum deviation of a good output from the published value, as a share of that
// value.
const Near = 0.15

// Item is a published number, or a shape.
type Item struct {
	Name      string  // the figure, table or section, and the quantity: "fig6.slope_us_per_byte"
	Place     string  // the place in the paper
	Says      string  // what the number measures; for a shape, the property
	Kind      Kind    //
	Published float64 // 0 for a shape
	Unit      string
	On        Basis  // basis of our value, if it is not that of the experiment
	Below     bool   // our value must be less than the published number
	Computed  bool   // the paper has no such measurement: the published number is arithmetic of its other numbers
	Why       string // why we have no value, or why our value deviates by more than Near
	From      *From  // the items from which the published number is computed; nil for none
}

// Row is an item with our value.
type Row struct {
	Paper     string   `json:"paper"`
	Item      string   `json:"item"`
	Published *float64 `json:"published"`      // null for a shape
	Ours      *float64 `json:"ours"`           // null if not measured; for a shape 1 if it holds, 0 if not
	Code      *float64 `json:"code,omitempty"` // the value of Bobnet's code, for a row whose value is that of a model
	Kind      Kind     `json:"kind"`
	On        Basis    `json:"on"` // the object on which our value is measured
	Unit      string   `json:"unit,omitempty"`
	Deviation *float64 `json:"deviation,omitempty"` // our value divided by the published value, minus 1
	Place     string   `json:"place"`
	Says      string   `json:"says"`
	Why       string   `json:"why,omitempty"`
	Follows   string   `json:"follows,omitempty"` // how the published number is computed from other rows
	below     bool
	computed  bool // Item.Computed
	measured  bool // our value is measured directly, not computed from other rows
}

// row returns the row of an item. ours is NaN if the item was not measured.
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

// Good reports whether the row is measured and agrees with the paper: a shape holds, or a value is
// within Near of the published value and below it if Item.Below is set.
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

// on returns the object on which our value of an item is measured.
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
