package paper

import (
	"math"
	"strings"
	"testing"
)

// TestArithmetic checks that an item is derived if and only if it is computed from inputs, or the
// paper has not measured it. It also checks that published numbers follow from other published
// numbers as the tables state, except for rounding.
func TestArithmetic(t *testing.T) {
	const rounding = 0.05
	for _, p := range Papers() {
		for i := range p.Items {
			item := &p.Items[i]
			if item.From == nil {
				if item.Kind == Derived {
					t.Errorf("%s: %s is derived, and nothing says from what", p.Name, item.Name)
				}
				continue
			}
			if inputs := p.ofInputs(item); (inputs || item.Computed) != (item.Kind == Derived) {
				t.Errorf("%s: %s is an %s, though it follows from inputs only: %v", p.Name, item.Name, item.Kind, inputs)
			}
			if !item.computed() || strings.Contains(item.From.How, "though") {
				continue
			}
			was := item.From.value(func(name string) float64 { return p.item(name).Published })
			if math.Abs(was/item.Published-1) > rounding {
				t.Errorf("%s: %s is published as %v, its arithmetic is %v", p.Name, item.Name, item.Published, was)
			}
		}
	}
}

// ofInputs reports whether an item is an input, or is computed from inputs only.
func (p *Paper) ofInputs(item *Item) bool {
	if item.Kind == Input {
		return true
	}
	if item.From == nil {
		return false
	}
	for _, name := range item.From.Of {
		if !p.ofInputs(p.item(name)) {
			return false
		}
	}
	return true
}
