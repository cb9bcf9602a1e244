package paper

import (
	"bytes"
	"fmt"
	"strings"
)

const markdownHead = `# The papers, repeated

%s go run ./cmd/bobnet paper --doc docs/paper.md

This command repeats the measurements of the papers that Bobnet follows, in virtual time. It
writes this file and its plots.

The **kind** of a row states what the comparison shows:

- **input**: the published number fixed a constant of the model. No number fixes two constants.
- **output**: our value results from programs that ran with all constants fixed. Only outputs are
  counted.
- **derived**: the published number is computed from inputs, or the paper did not measure it. A
  published value in parentheses is computed from the paper's other numbers, and is not a
  measurement of the paper.
- **shape**: the paper states or draws a property without a number.

The column **on** names the object of our measurement:

- **code**: Bobnet's packages and control programs, as users import them, on emulated cards or
  links whose times are the profile's constants.
- **model**: a program of package internal/paper that follows the paper's rules in place of
  Bobnet's packages.
- **constant**: nothing is measured. Our value is the constant that the published number fixed, so
  it cannot deviate.
- **arithmetic**: nothing is measured. Our value is computed from other rows, or from sizes.

If our value is that of a model, the last column, **code**, shows the value of Bobnet's code. This
value is not counted.

The mark ! means that our value deviates by more than 15 %%, that a shape does not hold, or that
the item was not measured. The remarks under the table give the reason.

A constant is fixed by one published number, or is stated by the paper, or is a choice. No
published number fixes a choice. The table under each table of constants shows the values that
change when a choice is decreased or increased by half (` + "`bobnet paper --sensitivity`" + `).

`

// Markdown returns the document of the results and of the changes caused by other choices. plots is
// the directory of its pictures, relative to the document.
func Markdown(results []Result, changes []Change, plots string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, markdownHead, "   ")
	for _, r := range results {
		p := r.Paper
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n", p.Name, p.Title)
		for _, note := range p.Notes {
			b.WriteString(note + "\n\n")
		}
		for i := range p.Profiles {
			p.Profiles[i].markdown(&b)
		}
		b.WriteString(p.sources() + "\n\n")
		p.sensitivity(&b, changes)
		r.markdown(&b)
		if len(p.Left) > 0 {
			b.WriteString("Published numbers that are not repeated:\n\n")
			for i := range p.Left {
				b.WriteString(p.Left[i].markdown())
			}
			b.WriteString("\n")
		}
		for _, f := range r.Figures {
			fmt.Fprintf(&b, "![%s](%s/%s.png)\n\n", f.Text, plots, f.Name)
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func (p *Profile) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "Profile `%s`: %s.\n\n| constant | value | fixed by | how |\n| --- | --- | --- | --- |\n", p.Name, p.Is)
	for i := range p.Constants {
		c := &p.Constants[i]
		fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", c.Name, number(c.Value), c.Unit, c.by(), c.Why)
	}
	b.WriteString("\n")
}

func (r *Result) markdown(b *bytes.Buffer) {
	b.WriteString("| item | what | where | kind | on | published | ours | deviation | | code |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	var why, follows []string
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(b, "%s%s | %s | %s | %s |\n", row.Fixed(), strings.TrimSpace(row.ours()+" "+row.unitOfOurs()), row.deviation(), row.mark(), row.code())
		if from := r.Paper.Items[i].From; from != nil {
			follows = append(follows, from.markdown(row.Item))
		}
		if row.Why != "" {
			why = append(why, fmt.Sprintf("- `%s`: %s.\n", row.Item, row.Why))
		}
	}
	fmt.Fprintf(b, "\n%s\n\n", r.summary())
	if len(follows) > 0 {
		b.WriteString("Rows whose published number is computed from other rows:\n\n" + strings.Join(follows, "") + "\n")
	}
	if len(why) > 0 {
		b.WriteString("Remarks, mainly on rows that deviate further:\n\n" + strings.Join(why, "") + "\n")
	}
}

// Fixed returns the part of a row of the document before our value, as in the table of items.
func (r *Row) Fixed() string {
	unit := " " + r.Unit
	if r.Published == nil {
		unit = ""
	}
	published := r.published() + unit
	if r.computed {
		published = "(" + published + ")"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | ", r.Item, r.Says, r.Place, r.Kind, r.On, published)
}

func (r *Row) unitOfOurs() string {
	if r.Ours == nil || r.Kind == Shape {
		return ""
	}
	return r.Unit
}
