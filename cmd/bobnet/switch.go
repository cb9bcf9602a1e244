package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/packet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const switchLong = `Run a crossbar switch of the emulated Myrinet. Each port is a network interface, which is
one end of a cable. At the other end is a card (a program with driver myrinet) or a port of
another switch. The two ends find each other automatically. A switch has no address and no
table, because packets carry their route.

Ports are numbered from 0 in the order of the flags, or explicitly: --port 3=eth1. Unused
numbers are ports without a cable.

The switch runs until it is interrupted, and then prints the traffic of each port. SIGQUIT
(Ctrl-\) prints the traffic at any time.

If the interface of a port is deleted, the other ports continue, and the port waits for a
new interface of the same name.`

const switchExample = `  bobnet switch --port eth0 --port eth1
  bobnet switch --port 0=eth0 --port 5=eth1 --metrics :9464`

// defaultSwitchPorts is the default number of ports of a switch.
const defaultSwitchPorts = 8

// maxSwitchName is the maximum length of a switch's name in bytes. The name is a label of metrics.
const maxSwitchName = 255

// logFlush is the maximum wait for the last log lines.
const logFlush = 100 * time.Millisecond

// switchCall is a call of `bobnet switch`.
type switchCall struct {
	name    string
	ports   []string
	size    int
	driver  string
	metrics string
	options myrinet.LiveOptions
	log     *slog.Logger // for running ports; it never blocks
}

func newSwitchCmd() *cobra.Command {
	var call switchCall
	cmd := &cobra.Command{
		Use:     "switch --port IFACE --port IFACE ...",
		Short:   "Run a crossbar switch of the emulated Myrinet",
		Long:    switchLong,
		Example: switchExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := call.layout()
			if err != nil {
				return usageError{err}
			}
			return call.run(cmd.Context(), names, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.VarP(switchPort(&call.ports), "port", "p", "`interface` of a port, with or without its number: eth0, 3=eth1; repeat for each port")
	f.Var(number(&call.size, defaultSwitchPorts, 2, crossbar.MaxPorts), "ports", "number of ports of the switch, including those without a cable")
	f.Var(choice(&call.driver, "ring", "ring", "packet"), "driver", "driver that carries the frames: ring or packet")
	f.Var(text(&call.name, "switch", most(maxSwitchName)), "name", "`name` of the switch in its output and metrics")
	f.Var(period(&call.options.Timeout, 0, time.Millisecond, time.Hour), "timeout", "time after which a blocked packet is aborted (default 500ms)")
	f.Var(period(&call.options.Silence, 0, time.Millisecond, time.Hour), "silence", "time after which a silent neighbour counts as absent (default 2s)")
	f.Var(period(&call.options.Spin, 0, 0, time.Minute), "spin", "time that a port polls after the last frame before it sleeps")
	f.Var(listenAt(&call.metrics), "metrics", "serve the ports' metrics on this `address` (:port means localhost): /metrics, and readable status at /debug/bobnet")
	return cmd
}

// switchPort is a flag whose values are interfaces, each with or without a port number.
func switchPort(to *[]string) *settings[string] {
	s := texts(to)
	s.some = interfaceNames
	return s
}

// layout returns the interface of each port, "" for one without a cable.
func (c *switchCall) layout() (names []string, err error) {
	if len(c.ports) == 0 {
		return nil, errors.New("switch: missing interfaces of the ports (try: --port eth0 --port eth1)")
	}
	names = make([]string, c.size)
	next := 0
	for _, text := range c.ports {
		number, name, numbered := strings.Cut(text, "=")
		at := next
		if !numbered {
			name = text
		} else if at, err = strconv.Atoi(number); err != nil {
			return nil, fmt.Errorf("switch: --port %s: invalid port number %q", text, number)
		}
		switch {
		case name == "":
			return nil, fmt.Errorf("switch: --port %s: missing interface", text)
		case at < 0 || at >= c.size:
			return nil, fmt.Errorf("switch: --port %s: no port %d: the ports are 0 to %d (raise --ports)", text, at, c.size-1)
		case names[at] != "":
			return nil, fmt.Errorf("switch: --port %s: port %d is already %s", text, at, names[at])
		case slices.Contains(names, name):
			return nil, fmt.Errorf("switch: --port %s: %s is port %d already: each port needs an interface of its own", text, name, slices.Index(names, name))
		}
		names[at] = name
		for next < c.size && names[next] != "" {
			next++
		}
	}
	for at, name := range names {
		if name == "" {
			continue
		}
		if err := noInterface(name); err != nil {
			return nil, fmt.Errorf("switch: port %d: %w", at, err)
		}
	}
	return names, nil
}

// run runs the switch until ctx is done.
func (c *switchCall) run(ctx context.Context, names []string, out io.Writer) (err error) {
	logs := logqueue.New(slog.Default())
	c.log = logs.Logger()
	defer logs.Flush(logFlush)
	links := make([]transport.Link, len(names))
	defer func() { closeAll(links) }()
	for i, name := range names {
		if name == "" {
			continue
		}
		if links[i], err = c.openLink(ctx, name); err != nil {
			links[i] = nil
			return fmt.Errorf("switch: port %d: %w", i, err)
		}
	}
	sw, err := hardware.NewLiveSwitch(c.name, links, c.options)
	if err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	stop, err := c.serve(sw)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Fprintf(out, "switch %s: ports %s\n", c.name, listPorts(names))
	c.drive(ctx, sw, names, links)
	if err := hardware.WriteLivePorts(out, sw.Ports()); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// openLink opens the link of a port.
func (c *switchCall) openLink(ctx context.Context, name string) (link transport.Link, err error) {
	if c.driver == "packet" {
		link, err = packet.Open(ctx, &packet.Config{Interface: name, EtherType: ethertype.Fabric, Ports: hardware.CablePorts})
	} else {
		link, err = ring.Open(ctx, &ring.Config{
			Interface: name, EtherType: ethertype.Fabric, Ports: hardware.CablePorts, XDP: ring.Off,
		})
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another switch or card (choose another interface, or end that program): %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	return link, nil
}

func listPorts(names []string) string {
	var list []string
	for i, name := range names {
		if name != "" {
			list = append(list, fmt.Sprintf("%d=%s", i, name))
		}
	}
	return strings.Join(list, " ")
}

// serve makes the state of the switch available: on SIGQUIT, to the node's agent, and over HTTP if
// requested.
func (c *switchCall) serve(sw *hardware.LiveSwitch) (stop func(), err error) {
	quits, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(quits, unix.SIGQUIT)
	go func() {
		for {
			select {
			case <-quits:
				hardware.WriteLivePorts(os.Stderr, sw.Ports()) // an error cannot be reported anywhere
			case <-done:
				return
			}
		}
	}()
	collector := metrics.NewSwitchCollector(sw)
	answers := collector.AnswerAgent()
	stop = func() {
		answers()
		signal.Stop(quits)
		close(done)
	}
	if c.metrics == "" {
		return stop, nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/bobnet", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("format") == "json" {
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(sw.Ports()) // an error means that the client is gone
			return
		}
		hardware.WriteLivePorts(w, sw.Ports())
	})
	server, err := metrics.ServeHandler(c.metrics, mux)
	if err != nil {
		stop()
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	slog.Info("serving metrics", "at", fmt.Sprintf("http://%s/metrics", server.Addr()))
	quiet := stop
	return func() {
		server.Close()
		quiet()
	}, nil
}

// drive runs all ports until ctx is done.
func (c *switchCall) drive(ctx context.Context, sw *hardware.LiveSwitch, names []string, links []transport.Link) {
	var ports sync.WaitGroup
	for i := range links {
		if links[i] != nil {
			ports.Go(func() { c.keep(ctx, sw, i, names[i], &links[i]) })
		}
	}
	ports.Wait()
}

// keep runs a port until ctx is done. If the interface is deleted, it opens the next interface of
// the same name.
func (c *switchCall) keep(ctx context.Context, sw *hardware.LiveSwitch, i int, name string, link *transport.Link) {
	for {
		watched, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		var gone error
		watch.Go(func() { gone = closeWhenGone(watched, *link) })
		err := sw.Drive(i)
		stop()
		watch.Wait()
		if gone != nil { // then err only reports that the link was closed
			err = gone
		}
		if ctx.Err() != nil {
			return
		}
		sw.Unplug(i)
		c.log.Warn("interface of a port deleted, waiting for a new one", "switch", sw, "port", i, "interface", name, "err", err)
		next := c.reopen(ctx, name)
		if next == nil {
			return
		}
		*link = next
		if err := sw.Replug(i, next); err != nil {
			c.log.Error("a port cannot use the new interface", "switch", sw, "port", i, "interface", name, "err", err)
			return
		}
		c.log.Info("port restored with a new interface", "switch", sw, "port", i, "interface", name)
	}
}

// reopen opens the interface of a port as soon as it exists. It returns nil when ctx is done.
func (c *switchCall) reopen(ctx context.Context, name string) transport.Link {
	tick := time.NewTicker(gonePause)
	defer tick.Stop()
	for {
		if link, err := c.openLink(ctx, name); err == nil {
			return link
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func closeAll(links []transport.Link) {
	for _, link := range links {
		if link != nil {
			link.Close()
		}
	}
}
