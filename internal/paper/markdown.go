package paper

import (
	"bytes"
	"fmt"
	"strings"
)

const markdownHead = `# The papers, repeated

%s go run ./cmd/bobnet paper --doc docs/paper.md

repeats the measurements of the papers that Bobnet follows, in virtual time, and wrote
this file with its plots. Of each published number stands here what it is worth to
compare: an **input** fixed a constant of the model, and no constant has two; an
**output** comes out of programs that run, with nothing left to choose; **derived** is
arithmetic of inputs; a **shape** is what a paper says or draws without a number. What is
arithmetic of other rows, inputs or not, says of which under the table. A row marked
with ! is not as it should be: an output further than 15 %% away, a shape that does not
hold, or an item that has not been measured; the reason stands there, too.

`

// Markdown returns the document of the results. Its pictures are in the directory plots,
// relative to it.
func Markdown(results []Result, plots string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, markdownHead, "   ")
	for _, r := range results {
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n", r.Paper.Name, r.Paper.Title)
		for _, p := range r.Paper.Profiles {
			p.markdown(&b)
		}
		r.markdown(&b)
		for _, f := range r.Figures {
			fmt.Fprintf(&b, "![%s](%s/%s.png)\n\n", f.Text, plots, f.Name)
		}
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func (p *Profile) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "Profile `%s`: %s.\n\n| constant | value | fixed by | how |\n| --- | --- | --- | --- |\n", p.Name, p.Is)
	for _, c := range p.Constants {
		by := "none"
		if c.Item != "" {
			by = "`" + c.Item + "`"
		}
		fmt.Fprintf(b, "| %s | %s %s | %s | %s |\n", c.Name, number(c.Value), c.Unit, by, c.Why)
	}
	b.WriteString("\n")
}

func (r *Result) markdown(b *bytes.Buffer) {
	b.WriteString("| item | what | where | kind | published | ours | deviation | |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	var why, follows []string
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(b, "%s%s | %s | %s |\n", row.Fixed(), strings.TrimSpace(row.ours()+" "+row.unitOfOurs()), row.deviation(), row.mark())
		if from := r.Paper.Items[i].From; from != nil {
			follows = append(follows, from.markdown(row.Item))
		}
		if row.Why != "" {
			why = append(why, fmt.Sprintf("- `%s`: %s.\n", row.Item, row.Why))
		}
	}
	fmt.Fprintf(b, "\n%s\n\n", r.summary())
	if len(follows) > 0 {
		b.WriteString("What follows from what:\n\n" + strings.Join(follows, "") + "\n")
	}
	if len(why) > 0 {
		b.WriteString("Remarks, above all why some are further away:\n\n" + strings.Join(why, "") + "\n")
	}
}

// Fixed is what a row of the document has before our value: it is that of the table of
// items.
func (r *Row) Fixed() string {
	unit := " " + r.Unit
	if r.Published == nil {
		unit = ""
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s%s | ", r.Item, r.Says, r.Place, r.Kind, r.published(), unit)
}

func (r *Row) unitOfOurs() string {
	if r.Ours == nil || r.Kind == Shape {
		return ""
	}
	return r.Unit
}
