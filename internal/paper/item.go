package paper

import "math"

// Kind says what our value of an item is worth: see the package comment.
type Kind string

// The kinds of items.
const (
	Input   Kind = "input"
	Output  Kind = "output"
	Derived Kind = "derived"
	Shape   Kind = "shape"
)

// Near is how far an output may lie from the published value, as a share of it.
const Near = 0.15

// Item is a published number, or a shape.
type Item struct {
	Name      string  // the figure, table or section, and what of it: "fig6.slope_us_per_byte"
	Place     string  // where the paper has it
	Says      string  // what is measured; of a shape, what holds
	Kind      Kind    //
	Published float64 // 0 for a shape
	Unit      string
	Below     bool   // the published number is one that ours must stay under
	Why       string // why there is no value of ours, or why it is further away than Near
	From      *From  // of which other items the published number is arithmetic; nil for none
}

// Row is an item with our value.
type Row struct {
	Paper     string   `json:"paper"`
	Item      string   `json:"item"`
	Published *float64 `json:"published"` // null for a shape
	Ours      *float64 `json:"ours"`      // null for what was not measured; of a shape 1 if it holds, 0 if not
	Kind      Kind     `json:"kind"`
	Unit      string   `json:"unit,omitempty"`
	Deviation *float64 `json:"deviation,omitempty"` // ours over published, less 1
	Place     string   `json:"place"`
	Says      string   `json:"says"`
	Why       string   `json:"why,omitempty"`
	Follows   string   `json:"follows,omitempty"` // how it is arithmetic of other rows
	below     bool
	measured  bool // by itself, and not computed from other rows
}

// row returns the item's row. ours is NaN for what was not measured.
func (i *Item) row(paper string, ours float64) Row {
	r := Row{Paper: paper, Item: i.Name, Kind: i.Kind, Unit: i.Unit, Place: i.Place, Says: i.Says, Why: i.Why, below: i.Below, measured: !i.computed()}
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
