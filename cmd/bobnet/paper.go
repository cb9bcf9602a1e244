package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/internal/paper"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/spf13/cobra"
)

const paperLong = `Repeat the measurements of the papers that Bobnet follows, in virtual time, and print each
published value next to ours. The papers am2 (Chun, Mainwaring, Culler), vmmc (Dubnicki et
al.) and splitc (Begel, Buonadonna, Gay) run on emulated Myrinet cards with the constants of
their hardware. The paper bobnet (Csanady, Wyckoff) runs on two simulated machines with Fast
Ethernet and Gigabit cards.

The kind of a row tells how to read the comparison:

  input    a published number that determined a constant of the model
  output   a result of the running programs
  derived  computed from inputs, or not measured by the paper
  shape    a statement without a number, which holds or does not

The column "on" names what ran: Bobnet's code, a model in its place, or nothing (a constant or
arithmetic). A row marked with ! is not as expected.

With --json each row is one line; published and ours are null if there is no number. --plot
draws the figures of the papers. --doc writes docs/paper.md, with its figures in a directory
of the same name without the extension.

--sensitivity repeats the papers with each constant that no published number determines
decreased and increased by half, and prints the rows that change by 1 % or more. This takes
much longer. --doc includes it.`

const paperExample = `  bobnet paper
  bobnet paper --only bobnet --json
  bobnet paper --plot plots
  bobnet paper --only vmmc --sensitivity
  bobnet paper --doc docs/paper.md`

// paperCall is a call of `bobnet paper`.
type paperCall struct {
	only        []string
	json        bool
	sensitivity bool
	plot, doc   string
}

func newPaperCmd() *cobra.Command {
	var call paperCall
	cmd := &cobra.Command{
		Use:     "paper",
		Short:   "Repeat the papers' measurements in virtual time",
		Long:    paperLong,
		Example: paperExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.Var(choices(&call.only, paperNames()), "only", "papers to repeat: "+strings.Join(paperNames(), ", "))
	flags.BoolVar(&call.json, "json", false, "print one JSON object per row")
	flags.BoolVar(&call.sensitivity, "sensitivity", false, "print the rows that change when a free constant is halved or increased by half")
	flags.Var(folder(&call.plot, ""), "plot", "draw the figures into this `DIR`")
	flags.Var(output(&call.doc, ""), "doc", "write the document to this `FILE`")
	return cmd
}

func paperNames() (names []string) {
	for _, p := range paper.Papers() {
		names = append(names, p.Name)
	}
	return names
}

// papers returns the papers of --only. It rejects inconsistent flags.
func (c *paperCall) papers() ([]*paper.Paper, error) {
	all := paper.Papers()
	if c.sensitivity && (c.doc != "" || c.plot != "") {
		return nil, usageError{errors.New("--sensitivity measures no figures: leave --doc and --plot out (--doc includes the table of sensitivities)")}
	}
	if c.doc != "" && filepath.Ext(c.doc) == "" {
		return nil, usageError{fmt.Errorf("--doc %s has no extension (the plots go to a directory of the same name without extension)", c.doc)}
	}
	if len(c.only) == 0 {
		return all, nil
	}
	if c.doc != "" {
		return nil, usageError{errors.New("--doc writes all papers: leave --only out")}
	}
	return slices.DeleteFunc(all, func(p *paper.Paper) bool { return !slices.Contains(c.only, p.Name) }), nil
}

func (c *paperCall) run(ctx context.Context, stdout, stderr io.Writer) error {
	papers, err := c.papers()
	if err != nil {
		return err
	}
	bar := newProgress(stderr)
	bar.every = 0 // one line per measurement, because some take a minute
	progress := func(n, all int, what string) {
		if what != "" {
			bar.step(n, all, what) // the measurement that begins
		}
	}
	var changes []paper.Change
	if c.sensitivity || c.doc != "" {
		changes, err = paper.Sensitivity(ctx, papers, progress)
	}
	var results []paper.Result
	if err == nil && !c.sensitivity {
		results, err = paper.Run(ctx, papers, progress)
	}
	bar.end()
	if err != nil {
		return err
	}
	if c.sensitivity {
		return c.printChanges(stdout, changes)
	}
	print := paper.WriteText
	if c.json {
		print = paper.WriteJSON
	}
	return errors.Join(print(stdout, results), c.write(results, changes))
}

// printChanges prints the rows that change.
func (c *paperCall) printChanges(w io.Writer, changes []paper.Change) error {
	if !c.json {
		return paper.WriteChanges(w, changes)
	}
	e := json.NewEncoder(w)
	for i := range changes {
		if err := e.Encode(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// write writes the files of --plot and --doc.
func (c *paperCall) write(results []paper.Result, changes []paper.Change) error {
	if c.plot != "" {
		if err := paper.WritePlots(c.plot, results); err != nil {
			return fmt.Errorf("--plot: %w", err)
		}
	}
	if c.doc == "" {
		return nil
	}
	plots := strings.TrimSuffix(c.doc, filepath.Ext(c.doc))
	err := paper.WritePlots(plots, results)
	if err == nil {
		err = userfile.Write(c.doc, paper.Markdown(results, changes, filepath.Base(plots)), 0o666)
	}
	if err != nil {
		return fmt.Errorf("--doc: %w", err)
	}
	return nil
}
