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

const topLong = `Show the stations of the segment and their VIs: messages and bytes per second in both
directions, retransmissions, and the age of the oldest unacknowledged frame.

The figures come from metrics that programs serve (metrics.Serve, or --metrics of perf, lab,
tun and other verbs), or that the node's agent serves for all of its programs. --metrics gives
their address, which can be on another host. The default is localhost:9464, where programs
usually serve metrics, and localhost:9465, where the agent's systemd unit does. At the address
of a lab, top reads all ranks. It shows stations without metrics as well, if they answer on
the segment and this program has the right to send there.

On a terminal, top runs until q is pressed. Otherwise, or with --once, it prints one view. For
this view it reads the metrics twice, --interval apart, to compute rates. The exit code is 1 if
an address of --metrics does not answer the second time, if the interface was opened
and fails or is down the second time, or if there is no source at all.`

// defaultMetrics lists the addresses where programs and the agent's systemd unit usually serve
// metrics.
var defaultMetrics = []string{"localhost:9464", "localhost:9465"}

// topCall is a call of bobnet top.
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
		Short:   "Show stations, VIs and their rates on a terminal or as text",
		Long:    topLong,
		Example: "  bobnet top\n  bobnet top --metrics :9464 --metrics host2:9464\n  bobnet top --once --json --discover=false",
		Args:    usage(noArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return call.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	nicFlags(cmd, &call.nic)
	f := cmd.Flags()
	f.Var(texts(&call.addresses, func(text string) error { _, err := top.NewSources([]string{text}); return err }), "metrics", "`address` or URL where metrics are served; may be repeated; by default "+strings.Join(defaultMetrics, " and "))
	f.Var(period(&call.every, 2*time.Second, time.Millisecond, time.Hour), "interval", "time between two updates")
	f.Var(choice(&call.order, top.ByTraffic, string(top.ByTraffic), string(top.ByRetransmissions), string(top.ByOldest), string(top.ByName)), "sort", "sort by traffic, retransmissions, oldest or name")
	f.BoolVar(&call.once, "once", false, "print one view and exit, even on a terminal")
	f.BoolVar(&call.asJSON, "json", false, "print one view as JSON and exit")
	f.BoolVar(&call.discover, "discover", true, "find stations on the segment by broadcast")
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
	segment := &top.Segment{}
	if c.discover {
		c.nic.Logger = slog.Default()
		segment = top.OpenSegment(ctx, c.nic)
		defer segment.Close()
	}
	var silent, gone error // of the last update
	take := func() *top.Sample {
		s := &top.Sample{At: time.Now()}
		silent = sources.Take(ctx, s)
		gone = segment.Take(ctx, s)
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
	if silent != nil && (len(c.addresses) > 0 || !segment.Open()) {
		err = errors.Join(err, fmt.Errorf("top: %w (does a program serve metrics there? see: bobnet top --help)", silent))
	}
	if gone != nil {
		err = errors.Join(err, fmt.Errorf("top: %w (see: bobnet doctor)", gone))
	}
	return err
}
