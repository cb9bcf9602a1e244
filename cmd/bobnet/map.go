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

const mapLong = `Probe an emulated Myrinet and print its hosts, switches and cables as text, JSON or a picture.
If the map differs from the file of --truth, print the differences and exit with code 1. Names
of switches and numbers of their ports are not compared, because probes cannot see them.

With --iface, the fabric is a running one. This program becomes a card at the end of a cable, on
an interface that no other program uses for a card or switch. It asks the other hosts for their
names, does not become the active mapper, and prints the map as soon as two consecutive
mappings agree. The name of a host is BOBNET_HOST of its programs, or its host name. (A program
with a card also prints the map of its host on SIGQUIT and at /debug/bobnet, if that host is
the active mapper.)

With --fabric, the fabric of FILE is simulated in virtual time, and one of its hosts maps it. The
map is compared with FILE unless --truth names another file.

FILE consists of these lines; empty lines are allowed, and # starts a comment:

	ports 8            number of ports of each switch; by default 8
	host h0 h1         names of hosts, each with one card
	switch s0 s1       names of switches
	link h0 s0:3       a cable between two ends; an end is a host or a switch's port

The map as text has the same format.`

const mapExample = `  bobnet map --iface eth1 --truth cluster.fabric
  bobnet map --iface eth1 --format svg -o cluster.svg
  bobnet map --fabric cluster.fabric --from h3
  bobnet lab --fabric two -- bobnet map`

func newMapCmd() *cobra.Command {
	var opt mapOptions
	cmd := &cobra.Command{
		Use:     "map [--fabric FILE] [flags]",
		Short:   "Map the hosts, switches and cables of an emulated Myrinet",
		Long:    mapLong,
		Example: mapExample,
		Args:    usage(noArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return opt.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.VarP(ifaceName(&opt.iface), "iface", "i", "map a running fabric through the cable at the interface with this `name` or MAC; by default $"+vipl.EnvInterface)
	flags.Var(fabricFile(&opt.fabric), "fabric", "simulate the fabric of this `FILE`; - is standard input; one, two and fattree are built in")
	flags.Var(fabricFile(&opt.truth), "truth", "compare the map with this `FILE` (default that of --fabric)")
	flags.Var(text(&opt.from, ""), "from", "`HOST` of a simulated fabric that does the mapping (default the first one)")
	flags.Var(choice(&opt.format, "text", "text", "json", "svg"), "format", "output format: text, json or svg")
	flags.VarP(output(&opt.out, "-"), "output", "o", "write the map to this `FILE`; - is standard output")
	flags.Var(seed(&opt.seed, 1), "seed", "seed of the simulation")
	flags.Var(period(&opt.limit, time.Minute, time.Millisecond, 24*time.Hour), "limit", "maximum time for mapping, in virtual time if the fabric is simulated")
	return cmd
}

// printMap contains a function for each output format.
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

// find maps the fabric of the flags. truth is the fabric for the comparison; it can be nil.
func (o *mapOptions) find(ctx context.Context) (m *mapper.Map, truth *topology.File, err error) {
	if o.iface != "" && o.fabric != "" {
		return nil, nil, usageError{errors.New("map: --iface (a running fabric) and --fabric (a simulated one) exclude each other (to compare the map with a file, use --truth)")}
	}
	if o.iface == "" && o.fabric == "" {
		if o.iface = os.Getenv(vipl.EnvInterface); o.iface == "" {
			return nil, nil, usageError{errors.New("map: missing fabric: want --iface for a running fabric, or --fabric for a simulated one")}
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

// simulate lets one host of a simulated fabric map the topology.
func (o *mapOptions) simulate(ctx context.Context, t *topology.Topology) (*mapper.Map, error) {
	from := 0
	if o.from != "" {
		from = slices.Index(t.Hosts, o.from)
	}
	if from < 0 || from >= len(t.Hosts) {
		return nil, usageError{fmt.Errorf("map: --from: the fabric has no host %q", o.from)}
	}
	w := sim.New(sim.Options{Seed: o.seed, Limit: o.limit})
	f, err := myrinet.New(w, myrinet.Options{Seed: o.seed, Ports: t.Ports})
	if err != nil {
		return nil, err
	}
	n, err := mapper.NewNetwork(w, f, t, func(i int) myrinet.MapperOptions {
		opts := myrinet.MapperOptions{ID: mapper.HostID(i), Name: t.Hosts[i], Seed: o.seed<<16 + uint64(i), Ports: t.Ports}
		if i != from {
			opts.Period = time.Hour // it does not map within the limit
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
			return nil, fmt.Errorf("map: not complete after %v of virtual time (raise --limit): %w", o.limit, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

const (
	mapPause   = 50 * time.Millisecond // between two mappings of a running fabric
	mapTimeout = 4 * time.Millisecond  // minimum time for an answer: longer than that of mappers, to miss fewer hosts
	mapWait    = 20 * time.Millisecond // interval of checks whether the verb is interrupted
)

// live maps the running fabric at the end of a cable, until two consecutive mappings agree.
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
		if _, err := link.Recv(make([][]byte, transport.MaxBatch)); err != nil { // frames for a station are ignored
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
		return nil, fmt.Errorf("map: no answer from the other end of the cable: %s", obstacle)
	}
	if !card.Up() {
		return nil, fmt.Errorf("map: no answer from the other end of the cable on %s within %v (is a switch or a card running there?)", link.Info().Interface, o.limit)
	}
	return nil, fmt.Errorf("map: no two consecutive mappings agree within %v (does the fabric change? raise --limit)", o.limit)
}
