package paper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Moved is the change of our value of an item.
type Moved struct {
	Item string  `json:"item"`
	Kind Kind    `json:"kind"`
	By   float64 `json:"by"`             // our value over the value before the change, minus 1; for a shape 1 if it holds now, -1 if it no longer does
	Near *bool   `json:"near,omitempty"` // for an output, whether its changed value is within Near of the published value
}

// Change is a choice with another value, and the items whose values change.
type Change struct {
	Paper    string  `json:"paper"`
	Constant string  `json:"constant"`
	Factor   float64 `json:"factor"` // by which the choice is multiplied
	Value    float64 `json:"value"`  // value of the choice times the factor
	Unit     string  `json:"unit"`
	Moves    []Moved `json:"moves"`
	Fails    string  `json:"fails,omitempty"` // why no programs ran with that value
}

// factors are the factors by which choices are multiplied.
var factors = []float64{0.5, 1.5}

// leastMove is the minimum change of a value that is reported, as a share of the value.
const leastMove = 0.01

// Sensitivity repeats papers with each choice of their profiles decreased and increased by half. It
// returns the values that change, in the order of the profiles. Experiments count for a tenth of
// their time, with and without the change.
func Sensitivity(ctx context.Context, papers []*Paper, progress Progress) ([]Change, error) {
	var changes []Change
	var parts [][]part // the parts of each unchanged paper, then the parts of each change
	var all []part
	add := func(of []part) {
		parts = append(parts, of)
		all = append(all, of...)
	}
	for _, p := range papers {
		add(p.parts(ctx, true, p.Name, nil))
	}
	for _, p := range papers {
		for _, c := range p.choices() {
			for _, factor := range factors {
				changes = append(changes, Change{Paper: p.Name, Constant: c.Name, Factor: factor, Value: c.Value * factor, Unit: c.Unit})
				add(p.changed(ctx, &c, factor))
			}
		}
	}
	for i := range all {
		all[i].optional = all[i].bench.change != nil
	}
	if err := runParts(all, progress); err != nil {
		return nil, err
	}
	was := map[string]Result{}
	for i, p := range papers {
		was[p.Name] = p.result(parts[i])
	}
	for i := range changes {
		c := &changes[i]
		before := was[c.Paper]
		c.compare(&before, parts[len(papers)+i])
	}
	return changes, nil
}

// changed returns the experiments of a paper with a choice multiplied by a factor.
func (p *Paper) changed(ctx context.Context, c *Constant, factor float64) []part {
	parts := p.parts(ctx, true, fmt.Sprintf("%s, %s times %v", p.Name, c.Name, factor), func(model any) { c.scale(model, factor) })
	return slices.DeleteFunc(parts, func(x part) bool { return c.in != nil && !slices.Contains(c.in, x.experiment.Name) })
}

// choices returns the constants of a paper that no published number fixes.
func (p *Paper) choices() (all []Constant) {
	for _, profile := range p.Profiles {
		for _, c := range profile.Constants {
			if c.Source == Chosen {
				all = append(all, c)
			}
		}
	}
	return all
}

// compare finds the items that have changed.
func (c *Change) compare(was *Result, parts []part) {
	for _, part := range parts {
		if part.bench.err != nil {
			c.Fails = part.bench.err.Error()
			return
		}
	}
	is := was.Paper.result(parts)
	for i := range is.Rows {
		a, b := &was.Rows[i], &is.Rows[i]
		if a.Ours == nil || b.Ours == nil {
			continue
		}
		m := Moved{Item: a.Item, Kind: a.Kind, By: *b.Ours - *a.Ours}
		if a.Kind != Shape {
			m.By /= *a.Ours
		}
		if math.Abs(m.By) < leastMove {
			continue
		}
		if near := b.Good(); a.Kind == Output {
			m.Near = &near
		}
		c.Moves = append(c.Moves, m)
	}
}

// text describes the changes, with each item between quotes.
func (c *Change) text(quote string) string {
	if c.Fails != "" {
		return "no run: " + c.Fails
	}
	if len(c.Moves) == 0 {
		return "nothing"
	}
	var of [2][]string // outputs and shapes; inputs and derived items
	for _, m := range c.Moves {
		name := quote + m.Item + quote
		text := fmt.Sprintf("%s %+.0f %%", name, 100*m.By)
		switch {
		case m.Kind == Shape && m.By > 0:
			text = name + " holds"
		case m.Kind == Shape:
			text = name + " does not hold"
		case m.Near != nil && !*m.Near:
			text += "!"
		}
		n := 0
		if m.Kind == Input || m.Kind == Derived {
			n = 1
		}
		of[n] = append(of[n], text)
	}
	text := strings.Join(of[0], ", ")
	if len(of[1]) == 0 {
		return text
	}
	if text == "" {
		text = "no output"
	}
	return text + "; not counted: " + strings.Join(of[1], ", ")
}

// WriteChanges writes the changes as text for people.
func WriteChanges(w io.Writer, changes []Change) error {
	for _, c := range changes {
		if _, err := fmt.Fprintf(w, "%s, %s, %s %s: %s\n", c.Paper, c.Constant, number(c.Value), c.Unit, c.text("")); err != nil {
			return err
		}
	}
	return nil
}

// sensitivity returns the first cell of a choice's row.
func (c *Constant) sensitivity() string {
	where := ""
	if c.in != nil {
		where = " (" + strings.Join(c.in, ", ") + ")"
	}
	return fmt.Sprintf("| %s, %s %s%s |", c.Name, number(c.Value), c.Unit, where)
}

// sensitivity writes the table of a paper's choices.
func (p *Paper) sensitivity(b *bytes.Buffer, changes []Change) {
	if len(p.choices()) == 0 {
		return
	}
	b.WriteString("The table shows the values that change by 1 % or more when a choice is decreased or increased by half. Here experiments run for a tenth of their time, both before and after\n" +
		"the change. If a row names experiments, only those were repeated with the changed choice. A ! marks an output that then deviates from the published value by more than 15 %. Inputs and derived rows are\n" +
		"not counted. Inputs change because the constants that they fix are not fitted again. If these constants were fitted again, outputs would change less.\n\n| choice | decreased by half | increased by half |\n| --- | --- | --- |\n")
	for _, c := range p.choices() {
		b.WriteString(c.sensitivity())
		for _, factor := range factors {
			text := "not measured"
			for i := range changes {
				if x := &changes[i]; x.Paper == p.Name && x.Constant == c.Name && x.Factor == factor {
					text = x.text("`")
				}
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}
