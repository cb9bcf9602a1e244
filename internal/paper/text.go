package paper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/internal/plot"
	"github.com/bobnet-go/bobnet/internal/userfile"
)

// WriteJSON writes each row as a line of JSON.
func WriteJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	for _, r := range results {
		for i := range r.Rows {
			if err := e.Encode(&r.Rows[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteText writes the rows as tables for people, and how many outputs are near.
func WriteText(w io.Writer, results []Result) error {
	for _, r := range results {
		fmt.Fprintf(w, "%s\n\n", r.Paper.Title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "item\tkind\ton\tpublished\tours\tunit\tdeviation\t\tcode")
		for i := range r.Rows {
			row := &r.Rows[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Item, row.Kind, row.On, row.published(), row.ours(), row.Unit, row.deviation(), row.mark(), row.code())
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "\n%s\n%s\n\n", r.summary(), r.Paper.sources()); err != nil {
			return err
		}
	}
	return nil
}

// near returns the number of outputs, how many of them are within tolerance, and how many of these
// were measured: the others are arithmetic of other outputs.
func (r *Result) near() (near, measured, all int) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Kind != Output {
			continue
		}
		all++
		if !row.Good() {
			continue
		}
		near++
		if row.measured {
			measured++
		}
	}
	return near, measured, all
}

// summary returns the numbers of near as a sentence.
func (r *Result) summary() string {
	near, measured, all := r.near()
	s := fmt.Sprintf("%d of %d outputs are within %.0f %%", near, all, Near*100)
	if measured < near {
		s += fmt.Sprintf("; of these, %d measured and %d computed from other outputs", measured, near-measured)
	}
	return s + "."
}

func (r *Row) published() string {
	switch {
	case r.Published == nil:
		return "holds"
	case r.below:
		return "< " + number(*r.Published)
	}
	return number(*r.Published)
}

func (r *Row) ours() string {
	if r.Ours == nil {
		return "-"
	}
	return r.value(*r.Ours)
}

// code returns the value of Bobnet's code next to a model's value.
func (r *Row) code() string {
	if r.Code == nil {
		return ""
	}
	return r.value(*r.Code)
}

func (r *Row) value(v float64) string {
	switch {
	case r.Kind != Shape:
		return number(v)
	case v == 1:
		return "holds"
	}
	return "does not"
}

func (r *Row) deviation() string {
	if r.Deviation == nil {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100**r.Deviation)
}

// mark returns ! for a row that is not good: see Good.
func (r *Row) mark() string {
	if r.Good() {
		return ""
	}
	return "!"
}

// number prints four digits, or all digits of the integer part if it has more.
func number(v float64) string {
	digits := 4
	if v >= 1 {
		digits = max(digits, 1+int(math.Log10(v)))
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// WritePlots draws all figures into a directory, and creates the directory if necessary.
func WritePlots(dir string, results []Result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, r := range results {
		for _, f := range r.Figures {
			if err := f.write(filepath.Join(dir, f.Name+".png")); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Figure) write(path string) error {
	file, err := userfile.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(plot.WritePNG(file, f.Panels...), file.Close())
}
