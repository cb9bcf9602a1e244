package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/top"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const topLong = `Show what goes on at the stations of the segment, and on their VIs: what is sent and
received in a second, what is sent again, and how old the oldest frame is that is not
acknowledged.

The figures come from the metrics that programs serve, with metrics.Serve, --metrics of perf,
lab, tun and others, or the node's agent for all of its programs. --metrics names where, also
on other hosts; it may be repeated. By default those of this host are read, at
localhost:9464, where programs usually serve them, and at localhost:9465, where the agent's
unit does. Where that is a lab, all ranks are read. Stations that serve no metrics are shown
as they answer on the segment, where this program may ask there.

On a terminal it goes on until q is pressed. Else, and with --once, it prints one view and
ends: two looks, --interval apart, so that there are rates. The exit code is 1 if an address
that --metrics names does not answer the second one, or if there was nobody to ask.`

// defaultMetrics is where programs usually serve their metrics, and the agent as its systemd unit
// starts it.
var defaultMetrics = []string{"localhost:9464", "localhost:9465"}

// topCall is what bobnet top is asked for.
type topCall struct {
	nic       vipl.Config
	addresses []string
	every     time.Duration
	order     top.Order
	once      bool
	asJSON    bool
	discover  bool
}

func newTopCmd() *cobra.Command {
	var call topCall
	cmd := &cobra.Command{
		Use:     "top [flags]",
		Short:   "Show stations, VIs and their rates, as a terminal view or as text",
		Long:    topLong,
		Example: "  bobnet top\n  bobnet top --metrics :9464 --metrics host2:9464\n  bobnet top --once --json --discover=false",
		Args:    usage(noArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return call.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	nicFlags(cmd, &call.nic)
	f := cmd.Flags()
	f.Var(texts(&call.addresses, func(text string) error { _, err := top.NewSources([]string{text}); return err }), "metrics", "`address` or URL where metrics are served; may be repeated; by default "+strings.Join(defaultMetrics, " and "))
	f.Var(period(&call.every, 2*time.Second, time.Millisecond, time.Hour), "interval", "time between two looks")
	f.Var(choice(&call.order, top.ByTraffic, string(top.ByTraffic), string(top.ByRetransmissions), string(top.ByOldest), string(top.ByName)), "sort", "what comes first: traffic, retransmissions, oldest or name")
	f.BoolVar(&call.once, "once", false, "print one view and end, also on a terminal")
	f.BoolVar(&call.asJSON, "json", false, "print one view as JSON and end")
	f.BoolVar(&call.discover, "discover", true, "ask on the segment which stations there are")
	return cmd
}

// run shows views, or prints one.
func (c *topCall) run(ctx context.Context, out io.Writer) error {
	var optional []string
	if len(c.addresses) == 0 {
		optional = defaultMetrics
	}
	sources, err := top.NewSources(c.addresses, optional...)
	if err != nil {
		return usageError{fmt.Errorf("top: --metrics: %w", err)}
	}
	defer sources.Close()
	segment := &segment{}
	if c.discover {
		segment = openSegment(ctx, c.nic)
		defer segment.close()
	}
	var silent error // of the last look
	take := func() *top.Sample {
		s := &top.Sample{At: time.Now()}
		silent = sources.Take(ctx, s)
		segment.take(ctx, s)
		return s
	}
	if !c.once && !c.asJSON && lab.IsTerminal(out) {
		return top.NewScreen(take, c.every, c.order).Run(ctx, os.Stdin, out)
	}
	before := take()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(c.every):
	}
	view := top.NewView(before, take())
	view.Sort(c.order)
	if c.asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(view)
	} else {
		err = view.Write(out)
	}
	if silent != nil && (len(c.addresses) > 0 || segment.nic == nil) {
		err = errors.Join(err, fmt.Errorf("top: %w (do programs serve metrics there? see: bobnet top --help)", silent))
	}
	return err
}

// segment is where stations are asked; without a NIC there is none.
type segment struct {
	nic  *vipl.NIC
	note string // why it cannot be asked
}

// openSegment opens a NIC to ask by. That it cannot is no failure: metrics need none.
func openSegment(ctx context.Context, cfg vipl.Config) *segment {
	cfg.Logger = slog.Default()
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		return &segment{note: fmt.Sprintf("the segment is not asked: %v", err)}
	}
	return &segment{nic: nic}
}

// listenFor is how long stations have to answer.
const listenFor = 250 * time.Millisecond

func (s *segment) take(ctx context.Context, to *top.Sample) {
	if s.note != "" {
		to.Notes = append(to.Notes, s.note)
	}
	if s.nic == nil {
		return
	}
	ctx, cancel := s.nic.WithTimeout(ctx, listenFor)
	defer cancel()
	found, err := s.nic.Discover(ctx)
	to.Found(found)
	if err != nil && !errors.Is(err, vipl.ErrTimeout) {
		to.Notes = append(to.Notes, fmt.Sprintf("the segment: %v", err))
	}
}

func (s *segment) close() {
	if s.nic != nil {
		s.nic.Close()
	}
}
