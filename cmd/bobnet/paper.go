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

const paperLong = `Repeat the measurements of the papers that Bobnet follows, in virtual time, and print
each published value beside ours: am2 (Chun, Mainwaring, Culler), vmmc (Dubnicki et al.)
and splitc (Begel, Buonadonna, Gay), on emulated Myrinet cards of their hardware, and
bobnet (Csanady, Wyckoff), over two simulated machines with Fast Ethernet and Gigabit
cards.

The kind of a row says what the comparison is worth. An input is a published number that
fixed a constant of the model. An output comes out of the programs that run. Derived is
arithmetic of inputs, or not measured by the paper. A shape has no number, and says what
holds. The column on says what ran: Bobnet's code, a model in its place, or nothing (a
constant, or arithmetic). A row marked with ! is not as it should be.

With --json each row is a line, in which published and ours are null where there is no
number. --plot draws the figures as the papers do. --doc writes the document that
docs/paper.md is, with its figures in a directory beside it that has the document's name
without its extension.

--sensitivity repeats the papers with each constant that no published number fixes a half
less and a half more, and prints which rows move by 1 % or more. It takes much longer.
--doc does so, too.`

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
		Short:   "Repeat the papers' measurements in virtual time: published values beside ours",
		Long:    paperLong,
		Example: paperExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return call.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.Var(choices(&call.only, paperNames()), "only", "the papers to repeat: "+strings.Join(paperNames(), ", "))
	flags.BoolVar(&call.json, "json", false, "print a line of JSON for each row")
	flags.BoolVar(&call.sensitivity, "sensitivity", false, "print what moves when a choice is a half less and a half more")
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

// papers returns those that --only names, if the flags fit each other.
func (c *paperCall) papers() ([]*paper.Paper, error) {
	all := paper.Papers()
	if c.sensitivity && (c.doc != "" || c.plot != "") {
		return nil, usageError{errors.New("--sensitivity measures no figures: leave --doc and --plot out (--doc has the table of choices anyway)")}
	}
	if c.doc != "" && filepath.Ext(c.doc) == "" {
		return nil, usageError{fmt.Errorf("--doc %s has no extension: its plots go to a directory of its name without one", c.doc)}
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
	bar.every = 0 // a line for each measurement: some take a minute
	progress := func(n, all int, what string) {
		if what != "" {
			bar.step(n, all, what) // the one that begins
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

// printChanges prints what moves.
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

// write writes the files.
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
