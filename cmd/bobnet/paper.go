package main

import (
	"context"
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
fixed a constant of the model; an output comes out of the programs that run; derived is
arithmetic of inputs; a shape has no number, and says what holds. What is arithmetic of
other rows says so in the document and, as follows, in JSON. A row marked with ! is not as
it should be.

With --json each row is a line, in which published and ours are null where there is no
number. --plot draws the figures as the papers do. --doc writes the document that
docs/paper.md is, with its figures in a directory beside it that has the document's name
without its extension.`

const paperExample = `  bobnet paper
  bobnet paper --only bobnet --json
  bobnet paper --plot plots
  bobnet paper --doc docs/paper.md`

// paperCall is a call of `bobnet paper`.
type paperCall struct {
	only      []string
	json      bool
	plot, doc string
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
	results, err := paper.Run(ctx, papers, func(done, all int, what string) {
		if what != "" {
			bar.step(done+1, all, what) // the one that begins
		}
	})
	bar.end()
	if err != nil {
		return err
	}
	print := paper.WriteText
	if c.json {
		print = paper.WriteJSON
	}
	return errors.Join(print(stdout, results), c.write(results))
}

// write writes the files.
func (c *paperCall) write(results []paper.Result) error {
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
		err = userfile.Write(c.doc, paper.Markdown(results, filepath.Base(plots)), 0o666)
	}
	if err != nil {
		return fmt.Errorf("--doc: %w", err)
	}
	return nil
}
