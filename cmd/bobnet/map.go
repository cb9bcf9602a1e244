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

	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// mapOptions are the flags of the verb.
type mapOptions struct {
	fabric, truth string
	from, iface   string
	format, out   string
	seed          uint64
	limit         time.Duration
}

const mapLong = `Find out by probes what a Myrinet in software consists of, and print that: as text, as
JSON or as a picture. Then say, and end with exit code 1, where it differs from what
--truth says. Switches have no names of their own, and their ports no numbers that a
probe could see, so that these count for nothing.

With --iface the fabric is a running one: this program is a card at the end of a cable,
on an interface that no other program has a card or a switch on. It asks the other
hosts who they are, leads nobody, and prints what two mappings in a row agree on. Hosts
are called what BOBNET_HOST says to their programs, or else by their host names. (A
program that has a card shows the map of its host, if that leads, to who sends it
SIGQUIT, and at /debug/bobnet.)

With --fabric the fabric that FILE describes is built in virtual time, and one of its
hosts maps it. It is compared with FILE if there is no --truth.

A line of FILE is empty, or one of these; # begins a comment:

	ports 8            of each switch; 8 if there is no such line
	host h0 h1         names of hosts, each with one card
	switch s0 s1       names of switches
	link h0 s0:3       a cable from a host, or a switch's port, to another one

As text the map is such a file again.`

const mapExample = `  bobnet map --iface eth1 --truth cluster.fabric
  bobnet map --iface eth1 --format svg -o cluster.svg
  bobnet map --fabric cluster.fabric --from h3
  bobnet lab --fabric two -- bobnet map`

func newMapCmd() *cobra.Command {
	var opt mapOptions
	cmd := &cobra.Command{
		Use:     "map [--fabric FILE] [flags]",
		Short:   "Map a Myrinet in software: hosts, switches and cables, as probes find them",
		Long:    mapLong,
		Example: mapExample,
		Args:    usage(noArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return opt.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.VarP(ifaceName(&opt.iface), "iface", "i", "map a running fabric, from the cable at the interface of this `name` or MAC; by default $"+vipl.EnvInterface)
	flags.Var(fabricFile(&opt.fabric), "fabric", "simulate the fabric that this `FILE` describes; - is the standard input; one, two and fattree are ready")
	flags.Var(fabricFile(&opt.truth), "truth", "the `FILE` to compare the map with (default that of --fabric)")
	flags.Var(text(&opt.from, ""), "from", "the `HOST` of a simulated fabric that maps (default the first one)")
	flags.Var(choice(&opt.format, "text", "text", "json", "svg"), "format", "what to print: text, json or svg")
	flags.VarP(output(&opt.out, "-"), "output", "o", "the `FILE` to write; - is the standard output")
	flags.Var(seed(&opt.seed, 1), "seed", "of everything random in the simulation")
	flags.Var(period(&opt.limit, time.Minute, time.Millisecond, 24*time.Hour), "limit", "the longest that it may take, in virtual time if the fabric is simulated")
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
	text := printMap[o.format]
	m, truth, err := o.find(ctx)
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
		err = userfile.Write(o.out, []byte(printed), 0o644)
	}
	if err != nil {
		return err
	}
	if truth == nil {
		return nil
	}
	if says := mapper.Compare(&m.Topology, &truth.Topology, m.Topology.Hosts[m.Mapper]); len(says) > 0 {
		return fmt.Errorf("the map differs from the truth:\n\t%s", strings.Join(says, "\n\t"))
	}
	return nil
}

// find maps the fabric that the flags name. truth is what to compare the map with, nil for
// nothing.
func (o *mapOptions) find(ctx context.Context) (m *mapper.Map, truth *topology.File, err error) {
	if o.iface != "" && o.fabric != "" {
		return nil, nil, usageError{errors.New("map: --iface is for a running fabric, --fabric for one to be simulated: leave one out; --truth compares")}
	}
	if o.iface == "" && o.fabric == "" {
		if o.iface = os.Getenv(vipl.EnvInterface); o.iface == "" {
			return nil, nil, usageError{errors.New("map wants a fabric: an interface that is the end of a cable with --iface, or a file to be simulated with --fabric")}
		}
	}
	if o.truth != "" {
		if truth, err = readFabric(o.truth); err != nil {
			return nil, nil, usageError{err}
		}
	}
	if o.fabric == "" {
		m, err = o.live(ctx, truth)
		return m, truth, err
	}
	fabric, err := readFabric(o.fabric)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if truth == nil {
		truth = fabric
	}
	m, err = o.simulate(ctx, &fabric.Topology)
	return m, truth, err
}

// simulate has one host map the topology.
func (o *mapOptions) simulate(ctx context.Context, t *topology.Topology) (*mapper.Map, error) {
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
	n, err := mapper.NewNetwork(w, f, t, func(i int) myrinet.MapperOptions {
		opts := myrinet.MapperOptions{ID: mapper.HostID(i), Name: t.Hosts[i], Seed: o.seed<<16 + uint64(i), Ports: t.Ports}
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

const (
	mapPause   = 50 * time.Millisecond // between two mappings of a running fabric
	mapTimeout = 4 * time.Millisecond  // least time for an answer: more than mappers give, because who asks wants the truth
	mapWait    = 20 * time.Millisecond // after which it is looked whether the verb is interrupted
)

// live maps the running fabric at the end of a cable, until two mappings in a row agree.
func (o *mapOptions) live(ctx context.Context, truth *topology.File) (*mapper.Map, error) {
	with := plain.LiveMapper()
	with.Observe, with.Period, with.Timeout = true, mapPause, mapTimeout
	if truth != nil {
		with.Ports = truth.Ports
	}
	link, err := plain.Open(ctx, &plain.OpenConfig{Interface: o.iface, Config: plain.Config{Mapper: with}})
	if err != nil {
		return nil, err
	}
	defer link.Close()
	card, ok := transport.As[interface {
		Up() bool
		Snapshot() plain.Snapshot
	}](link)
	if !ok {
		return nil, fmt.Errorf("map: %T is not the link of a card", link)
	}
	var last *mapper.Map
	for end := link.Now() + int64(o.limit); link.Now() < end; {
		if err := link.Wait(link.Now() + int64(mapWait)); err != nil {
			return nil, err
		}
		if _, err := link.Recv(make([][]byte, transport.MaxBatch)); err != nil { // what comes for a station is not ours
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		found := card.Snapshot().Mapper.Map
		if found == nil || found == last || !card.Up() {
			continue
		}
		if last != nil && found.Topology.Text() == last.Topology.Text() {
			return found, nil
		}
		last = found
	}
	if obstacle := iface.Obstacle(link.Info().Interface); obstacle != "" && !card.Up() {
		return nil, fmt.Errorf("map: nothing answers at the other end of the cable: %s", obstacle)
	}
	if !card.Up() {
		return nil, fmt.Errorf("map: nothing is at the other end of the cable on %s after %v: want a switch or a card there", link.Info().Interface, o.limit)
	}
	return nil, fmt.Errorf("map: no two mappings in a row have agreed within %v: the fabric changes too fast, or give it more with --limit", o.limit)
}
