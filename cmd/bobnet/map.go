package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/mapper"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/spf13/cobra"
)

// mapOptions are the flags of the verb.
type mapOptions struct {
	fabric, truth string
	from          string
	format, out   string
	seed          uint64
	limit         time.Duration
}

func newMapCmd() *cobra.Command {
	var opt mapOptions
	cmd := &cobra.Command{
		Use:   "map --fabric FILE [flags]",
		Short: "Map a simulated Myrinet: hosts, switches and cables, as probes find them",
		Long: `Build the Myrinet that FILE describes in virtual time, have one of its hosts find
out by probes what it consists of, and print that; then say, and end with exit code
1, where the map differs from FILE, or from another one given with --truth. Switches
have no names of their own, and their ports no numbers that a probe could see, so that
these count for nothing.

A line of FILE is empty, or one of these; # begins a comment:

	ports 8            of each switch; 8 if there is no such line
	host h0 h1         names of hosts, each with one card
	switch s0 s1       names of switches
	link h0 s0:3       a cable from a host, or a switch's port, to another one

As text the map is such a file again. As svg it is a picture.`,
		Example: "  bobnet map --fabric cluster.fabric\n  bobnet map --fabric cluster.fabric --from h3 --format svg -o cluster.svg",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return opt.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opt.fabric, "fabric", "", "the `FILE` that says what there is; - is the standard input; one, two and fattree are ready")
	flags.StringVar(&opt.truth, "truth", "", "the `FILE` to compare the map with (default that of --fabric)")
	flags.StringVar(&opt.from, "from", "", "the `HOST` that maps (default the first one)")
	flags.StringVar(&opt.format, "format", "text", "what to print: text, json or svg")
	flags.StringVarP(&opt.out, "output", "o", "-", "the `FILE` to write; - is the standard output")
	flags.Uint64Var(&opt.seed, "seed", 1, "of everything random in the simulation")
	flags.DurationVar(&opt.limit, "limit", time.Minute, "the longest that it may take, in virtual time")
	return cmd
}

// printMap says how maps are printed.
var printMap = map[string]func(m *mapper.Map) (string, error){
	"text": func(m *mapper.Map) (string, error) { return m.Text(), nil },
	"svg":  func(m *mapper.Map) (string, error) { return mapper.SVG(&m.Topology, m.Summary()), nil },
	"json": func(m *mapper.Map) (string, error) {
		b, err := json.MarshalIndent(m, "", "  ")
		return string(b) + "\n", err
	},
}

func (o *mapOptions) run(ctx context.Context, stdout io.Writer) error {
	if o.fabric == "" {
		return usageError{errors.New("map wants a fabric to be simulated: give a file with --fabric")}
	}
	text, known := printMap[o.format]
	if !known {
		return usageError{fmt.Errorf("there is no format %q: take text, json or svg", o.format)}
	}
	fabric, err := readFabric(o.fabric)
	if err != nil {
		return err
	}
	truth := fabric
	if o.truth != "" {
		if truth, err = readFabric(o.truth); err != nil {
			return err
		}
	}
	m, err := o.simulate(ctx, &fabric.Topology)
	if err != nil {
		return err
	}
	printed, err := text(m)
	if err != nil {
		return err
	}
	if o.out == "-" {
		_, err = io.WriteString(stdout, printed)
	} else {
		err = os.WriteFile(o.out, []byte(printed), 0o644)
	}
	if err != nil {
		return err
	}
	if says := mapper.Compare(&m.Topology, &truth.Topology, m.Topology.Hosts[m.Mapper]); len(says) > 0 {
		return fmt.Errorf("the map differs from the truth:\n\t%s", strings.Join(says, "\n\t"))
	}
	return nil
}

// simulate has one host map the topology.
func (o *mapOptions) simulate(ctx context.Context, t *myrinet.Topology) (*mapper.Map, error) {
	from := 0
	if o.from != "" {
		from = slices.Index(t.Hosts, o.from)
	}
	if from < 0 || from >= len(t.Hosts) {
		return nil, usageError{fmt.Errorf("the fabric has no host %q that could map: name one with --from", o.from)}
	}
	w := sim.New(sim.Options{Seed: o.seed, Limit: o.limit})
	f, err := myrinet.New(w, myrinet.Options{Seed: o.seed, Ports: t.Ports})
	if err != nil {
		return nil, err
	}
	n, err := mapper.NewNetwork(w, f, t, func(i int) mapper.Options {
		opts := mapper.Options{ID: mapper.HostID(i), Name: t.Hosts[i], Seed: o.seed<<16 + uint64(i), Ports: t.Ports}
		if i != from {
			opts.Period = time.Hour // it waits for others to map
		}
		return opts
	})
	if err != nil {
		return nil, err
	}
	for {
		if m := n.Mapped(from); m != nil {
			return m, nil
		}
		if err := w.Sleep(time.Millisecond); err != nil {
			return nil, fmt.Errorf("mapping takes longer than %v of virtual time: give it more with --limit: %w", o.limit, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}
