package paper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestConstantsHaveOneSource checks that a constant names the one input that fixed it, that no two
// constants name the same input, that each input is named, and that each choice states a reason.
func TestConstantsHaveOneSource(t *testing.T) {
	for _, p := range Papers() {
		fixes := map[string]string{}
		for _, profile := range p.Profiles {
			for _, c := range profile.Constants {
				name := profile.Name + ": " + c.Name
				if (c.Source == ByItem) != (c.Item != "") || (c.Source == Chosen) != (c.scale != nil) {
					t.Errorf("%s: its source is %q, its item %q, and it can be scaled: %v", name, c.Source, c.Item, c.scale != nil)
				}
				for _, name := range c.in {
					if !slices.ContainsFunc(p.Experiments, func(e Experiment) bool { return e.Name == name }) {
						t.Errorf("%s: it names experiment %q, which %s does not have", c.Name, name, p.Name)
					}
				}
				if c.Source != ByItem {
					if c.Source == Chosen && c.Why == "" {
						t.Errorf("%s: no number fixes it, and nothing says why", name)
					}
					continue
				}
				if item := p.item(c.Item); item == nil || item.Kind != Input {
					t.Errorf("%s: it is fixed by %s, which is no input of %s", name, c.Item, p.Name)
				}
				if other := fixes[c.Item]; other != "" {
					t.Errorf("%s fixes both %s and %s", c.Item, other, name)
				}
				fixes[c.Item] = name
			}
		}
		for _, item := range p.Items {
			if item.Kind == Input && fixes[item.Name] == "" {
				t.Errorf("%s: input %s fixes no constant", p.Name, item.Name)
			}
		}
	}
}

// TestItemsAreSet checks that each item has its own name, and that one experiment sets the item or
// the item states why it is not measured.
func TestItemsAreSet(t *testing.T) {
	for _, p := range Papers() {
		set := map[string]int{}
		for _, e := range p.Experiments {
			for _, name := range e.Items {
				if p.item(name) == nil {
					t.Errorf("%s, %s: there is no item %s", p.Name, e.Name, name)
				}
				set[name]++
			}
		}
		seen := map[string]bool{}
		for _, item := range p.Items {
			if seen[item.Name] {
				t.Errorf("%s has two items %s", p.Name, item.Name)
			}
			seen[item.Name] = true
			if n := set[item.Name]; n > 1 || n == 0 && item.Why == "" && !item.computed() || n > 0 && item.computed() {
				t.Errorf("%s: %d experiments set %s, want one, or none if it is computed or says why it is not measured", p.Name, n, item.Name)
			}
			if item.Place == "" || item.Says == "" || (item.Kind == Shape) != (item.Published == 0) {
				t.Errorf("%s: %+v does not say where it is from, or what it is", p.Name, item)
			}
		}
	}
}

// takesTime reports whether a tenth of the time is too short for an item: in this time, each frame
// has one turn, and each of 92 clients has sent only a few messages.
func takesTime(item string) bool {
	return strings.HasPrefix(item, "fig11.") || strings.HasSuffix(item, ".even")
}

var full = flag.Bool("paper.full", false, "repeat the papers as long as the command does, and judge all that they say")

// TestPapersRepeated repeats all papers for a tenth of the time. Each row without a stated reason
// must be good, and each figure must be drawn.
func TestPapersRepeated(t *testing.T) {
	var said []string
	papers := Papers()
	if !need.Full() {
		papers = slices.DeleteFunc(papers, func(p *Paper) bool { return p.Name == "am2" }) // it takes long
	}
	results, err := repeat(context.Background(), papers, !*full, func(_, _ int, what string) { said = append(said, what) })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if *full {
			isReached(t, &r)
		}
		for _, row := range r.Rows {
			if !row.Good() && row.Why == "" && (*full || !takesTime(row.Item)) {
				t.Errorf("%s: %s is %s %s, published %s, and nothing says why", row.Paper, row.Item, row.ours(), row.Unit, row.published())
			}
		}
		if len(r.Figures) != len(r.Paper.Figures) {
			t.Errorf("%s: %d figures are drawn, want %d", r.Paper.Name, len(r.Figures), len(r.Paper.Figures))
			continue
		}
		for i, f := range r.Figures {
			if f.Name != r.Paper.Figures[i] {
				t.Errorf("%s: figure %d is %s, want %s", r.Paper.Name, i, f.Name, r.Paper.Figures[i])
			}
		}
	}
	if len(said) < 2 || said[len(said)-1] != "" {
		t.Errorf("the progress was %q", said)
	}
	testFiles(t, results)
}

// testFiles writes the results in all formats.
func testFiles(t *testing.T, results []Result) {
	dir := filepath.Join(t.TempDir(), "plots")
	if err := WritePlots(dir, results); err != nil {
		t.Fatal(err)
	}
	var lines, text bytes.Buffer
	if err := errors.Join(WriteJSON(&lines, results), WriteText(&text, results)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := json.NewDecoder(&lines); d.More(); n++ {
		var row Row
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), row.Item) {
			t.Errorf("the text has no row %s", row.Item)
		}
	}
	doc := string(Markdown(results, nil, "plots"))
	for _, r := range results {
		n -= len(r.Rows)
		for _, f := range r.Figures {
			if _, err := os.Stat(filepath.Join(dir, f.Name+".png")); err != nil || !strings.Contains(doc, "plots/"+f.Name+".png") {
				t.Errorf("figure %s: %v, or the document does not show it", f.Name, err)
			}
		}
	}
	if n != 0 {
		t.Errorf("there are %d lines of JSON more than rows", n)
	}
}

// TestDocument checks that docs/paper.md has each item as in the tables, each constant, and the
// figures.
func TestDocument(t *testing.T) {
	const docs, hint = "../../docs", "; run: go run ./cmd/bobnet paper --doc docs/paper.md"
	b, err := os.ReadFile(filepath.Join(docs, "paper.md"))
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	items, figures := 0, 0
	for _, p := range Papers() {
		for i := range p.Items {
			items++
			row := p.row(&p.Items[i], math.NaN())
			if !strings.Contains(doc, row.Fixed()) {
				t.Errorf("docs/paper.md does not have the row %q%s", row.Fixed(), hint)
			}
			if from := p.Items[i].From; from != nil && !strings.Contains(doc, from.markdown(row.Item)) {
				t.Errorf("docs/paper.md does not say from what %s follows%s", row.Item, hint)
			}
			if row.Why != "" && !strings.Contains(doc, row.Why) {
				t.Errorf("docs/paper.md does not say of %s: %s%s", row.Item, row.Why, hint)
			}
		}
		for _, f := range p.Figures {
			figures++
			if _, err := os.Stat(filepath.Join(docs, "paper", f+".png")); err != nil || !strings.Contains(doc, "(paper/"+f+".png)") {
				t.Errorf("docs/paper.md does not show %s%s", f, hint)
			}
		}
		for _, left := range p.Left {
			if !strings.Contains(doc, left.markdown()) {
				t.Errorf("docs/paper.md does not say that %s is not repeated%s", left.Says, hint)
			}
		}
		for _, note := range p.Notes {
			if !strings.Contains(doc, note) {
				t.Errorf("docs/paper.md does not say: %s%s", note, hint)
			}
		}
		for _, c := range p.choices() {
			if row := c.sensitivity(); !strings.Contains(doc, row) {
				t.Errorf("docs/paper.md does not say what moves with %s%s", row, hint)
			}
		}
		for _, profile := range p.Profiles {
			var table bytes.Buffer
			profile.markdown(&table)
			if !strings.Contains(doc, table.String()) {
				t.Errorf("docs/paper.md does not have the profile %s%s", profile.Name, hint)
			}
		}
	}
	if n := strings.Count(doc, "\n| `"); n != items {
		t.Errorf("docs/paper.md has %d rows, the tables %d items%s", n, items, hint)
	}
	files, err := os.ReadDir(filepath.Join(docs, "paper"))
	if err != nil || len(files) != figures {
		t.Errorf("docs/paper has %d files, there are %d figures: %v%s", len(files), figures, err, hint)
	}
}

// TestRunEnds checks that an experiment fails if it sets an unknown item, does not set an item that
// it declares, or measures nothing. Run also fails if its context has ended.
func TestRunEnds(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	quiet := func(int, int, string) {}
	if _, err := Run(ended, Papers(), quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	for want, run := range map[string]func(*Bench) error{
		"is computed":         func(b *Bench) error { b.Set("a", 1); b.Set("c", 1); return nil },
		`no item "b"`:         func(b *Bench) error { b.Set("a", 1); b.Set("b", 1); return nil },
		"has not set a":       func(*Bench) error { return nil },
		"the value of a is":   func(b *Bench) error { b.Set("a", math.NaN()); return nil },
		"context deadline":    func(*Bench) error { return context.DeadlineExceeded },
		"p, e: context deadl": func(*Bench) error { return context.DeadlineExceeded },
	} {
		p := &Paper{Name: "p", Items: []Item{{Name: "a", Kind: Output, Published: 1}, {Name: "c", Kind: Output, Published: 2, From: from("twice", twice, "a")}}, Experiments: []Experiment{{"e", []string{"a"}, OnCode, run}}}
		if _, err := Run(context.Background(), []*Paper{p}, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestGood checks which rows are good.
func TestGood(t *testing.T) {
	for _, test := range []struct {
		item Item
		ours float64
		want bool
	}{
		{Item{Kind: Output, Published: 100}, 114.9, true},
		{Item{Kind: Output, Published: 100}, 84, false},
		{Item{Kind: Output, Published: 100, Below: true}, 100, false},
		{Item{Kind: Output, Published: 100, Below: true}, 99, true},
		{Item{Kind: Output, Published: 100}, math.NaN(), false},
		{Item{Kind: Shape}, 1, true},
		{Item{Kind: Shape}, 0, false},
	} {
		if row := (&Paper{Name: "p"}).row(&test.item, test.ours); row.Good() != test.want {
			t.Errorf("%+v with %v: good is %v", test.item, test.ours, !test.want)
		}
	}
}

// reached has the minimum number of outputs of each paper that must be near the published values,
// and the minimum number of these that are measured directly.
var reached = map[string]struct{ near, measured int }{"am2": {19, 12}, "vmmc": {6, 5}, "bobnet": {3, 2}, "splitc": {9, 9}}

// isReached checks the numbers of reached for a paper that was repeated in full.
func isReached(t *testing.T, r *Result) {
	t.Helper()
	want := reached[r.Paper.Name]
	if near, measured, all := r.near(); near < want.near || measured < want.measured {
		t.Errorf("%s: %d of %d outputs are near, %d of them measured by themselves: want %d and %d", r.Paper.Name, near, all, measured, want.near, want.measured)
	}
}

// BenchmarkFigure7 is figure 7 of the AM-II paper with 92 clients, for a second of virtual time.
func BenchmarkFigure7(b *testing.B) {
	for b.Loop() {
		c, err := measureCrowd(b.Context(), nowConfig(), tableHosts+1, amUnderWay, fullTime, one, onServer, shortRequests)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(c.all, "messages/virtual-s")
	}
}
