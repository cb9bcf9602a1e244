package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const perfLong = `Measure one-way time, bandwidth and message rate of raw frames, VIs, MPLite,
active messages (am2), writes into exported memory (vmmc), remote procedures
(vrpc), Split-C (splitc), streams (stream), TCP and UDP over one link, in turns, so that their ratios
hold on a noisy machine.

  --local    makes a pair of network namespaces joined by veth, for each --mtu,
             and runs both ends; as root, or in an unprivileged user namespace
  --listen   waits for clients on this machine's segment
  --to ADDR  measures against a --listen: its address, or the name it printed
  --apps     runs applications in namespaces of this machine

With --curve the latency and the bandwidth of all stacks are measured for messages of 1 byte to
8 MiB, with the sizes beside each power of two, at MTU 1500, 9000 and 65535, spinning and
blocking; without --listen or --to it implies --local. The tables have a row for each size, and
list at which sizes TCP is ahead of each stack; --plot draws a line for each stack.
Other flags restrict what is measured: all of it takes about half an hour. --topology joins the ends
of --local by a bridge, or runs both on one host.

With --key FILE --local measures vipl over the link ring twice, as it is and with
sealed frames; the others have all that goes between them sealed.

With --link shm both ends are processes of one namespace, joined by shared
memory; the stacks "line" and "handoff" then show what a bare cache line takes
between the two, and messages copied once.

Latency is half a round trip, in microseconds; the tests read and write are of
RDMA, which vipl and splitc have, and a read's time is the whole of it. The cache-line time ("line ns")
tells whether the machine's two cores were near or far from each other; what is
compared was measured in the same state. With --json each measurement is one
line; fields that do not apply are 0 or left out.

The size decides which kind of message am2 sends: up to 64 bytes are the
arguments of a short request, up to 4096 the payload of a medium one, and what is
longer is placed in the other side's segment, as a bulk one. Each request is
answered: by a reply of its own size in the test latency, and by an empty reply
in bandwidth and rate. All stacks use the same sizes by default; those of the
virtual-network paper are --sizes 16,4096,1048576.

With vmmc nobody receives: a half that spins looks at the last word of the
message in its memory, one that blocks waits for a notification. The tests
bidirectional and overhead, which only vmmc has, are the VMMC paper's. In the
first both ends send at the same time, and wait for each other's message before
they send again; what is printed is the total of both. Overhead is the time of
the call that sends, to an end that is idle: a synchronous call returns when the
source may be used again, an asynchronous one when the send is posted. --plot
draws the paper's figures 2, 3 and 4 with the sizes of the example.

Vrpc calls a procedure with arguments and results of the size in the test latency,
and first the null procedure, as messages of 0 bytes; in the test bandwidth each
call gets a reply of the size. One call follows the other. The same service is
measured over VMMC (with replies left in place, too), TCP and UDP, and compared
with that over TCP. With --local a C program of the RPC library libtirpc is
compared, too, where it can be built: its latency over TCP ("vrpc/libtirpc").

Splitc is two processes of Split-C, over each of --layer. Its latency is that of
stores, its read a blocking one; it stores in the tests rate and bandwidth, and puts
in the test write. The tests primitives and bulk, which only splitc has, are figures
6-3 and 6-4 of its paper: the mean time of each of many reads, writes, gets, puts and
stores of an int, and of more, with the other process idle, or, two-way, doing the same; the
paper's 10,000 repetitions are --count 10000. --plot draws both figures. With
--stacks splitc,vipl,am2 VIA and active messages are beside it, as in figure 6-1, and the
test logp is their figure 6-2.

The test barrier, which splitc and mplite have, is the time of one barrier of both
ends. A barrier is a message each way, so that it is compared with the latency.

With --apps the applications of that paper run at its sizes, over each of --layer, on
each of --ranks and on one, as in figure 6-5: what they take, and their speed-up to
the run of one process. The work of em3d grows with the ranks, and so its speed-up is
of as much work. Each rank is bound to a processor of its own; ranks beyond the
processors of the machine are not, and are marked.

The test logp, which am2 has for short and medium requests, finds the
parameters of the LogP model by the method of "Assessing Fast Network Interfaces"
(Culler, Liu, Martin, Yoshikawa): it sends bursts of 1 to 512 requests that are
answered in kind, with delays of 0 to 50 us between them, and takes the average
time of a request. o_s, the overhead of sending, is that of a lone request; g, the
gap, what each further request of a long burst takes without a delay; o_r, the
overhead of receiving, what it takes beyond o_s and the delay when the delay is
longer than the gap, and than the round trip if there are such; and L is what
remains of half a round trip, RTT/2 - o_s - o_r. g may be much less than o_s,
because a lone request takes a system call, and requests that come one upon the other
share a frame. L is small or negative where the sender's own processor carries the frame
to the receiver, as over veth: o_s contains the way then, and the end of the call, when
the receiver is at work already. Splitc has it, too, if it is named: its
requests are puts, which the other end's layer answers, and stores, which the other
process answers by stores; they poll after each delay, and o_r is what that takes
when an answer has come. A sample of logp is one sweep,
whatever --sample and --count say.`

const perfExample = `  bobnet perf --local
  bobnet perf --local --json --stacks raw,vipl,tcp --tests latency --wait spin
  bobnet perf --local --mtu 1500,9000,65535 --tests bandwidth --sizes 65536,1048576
  bobnet perf --local --link shm --stacks line,handoff,vipl --wait spin
  bobnet perf --local --stacks raw,vipl,am2 --sizes 16 --tests latency,rate --wait spin
  bobnet perf --local --stacks am2 --tests logp --plot signature.png
  bobnet perf --local --stacks vipl,vmmc --tests latency,bandwidth,bidirectional,overhead \
    --sizes 4,8,16,32,64,128,256,1024,4096,16384,65536,262144,1048576 --wait spin \
    --reliability delivery --mtu 9000 --plot vmmc.png
  bobnet perf --local --stacks splitc --tests primitives,bulk --wait spin --plot splitc.png
  bobnet perf --local --stacks splitc,mplite --tests latency,barrier,logp --wait spin
  bobnet perf --curve --plot curve.png
  bobnet perf --curve --mtu 9000 --wait block --stacks vipl,mplite,tcp --topology bridge
  bobnet perf --apps --ranks 2,4 --layer shm,reliable,unreliable --plot apps.png
  bobnet perf --listen             # on one machine, and on the other:
  bobnet perf --to perf/HOSTNAME --stacks vipl,mplite`

// perfCall is a call of `bobnet perf`.
type perfCall struct {
	plan     perf.Plan
	profiles perf.Profiles
	local    bool
	listen   bool
	to       string
	nic      vipl.Config
	key      string // the file
	ip       netip.Addr
	json     bool
	plot     string
	metrics  string
	pcap     string
	apps     []string
	ranks    []int
	perHost  int
	curve    bool
	topology string
}

func newPerfCmd() *cobra.Command {
	var call perfCall
	cmd := &cobra.Command{
		Use:     "perf --local | --curve | --listen | --to ADDR | --apps",
		Short:   "Measure latency, bandwidth and message rate of every stack on one link",
		Long:    perfLong,
		Example: perfExample,
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := call.check(cmd); err != nil {
				return usageError{err}
			}
			err := call.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if errors.Is(err, perf.ErrPlan) {
				return usageError{err}
			}
			return err
		},
	}
	call.addFlags(cmd)
	cmd.AddCommand(newPerfAppCmd(), &cobra.Command{
		Use:    "half",
		Short:  "One of the two processes that --local starts",
		Hidden: true,
		Args:   usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			watch, done, err := watchFor(os.Getenv(envMetrics))
			if err != nil {
				return err
			}
			defer done()
			return perf.RunHalf(cmd.Context(), watch)
		},
	})
	return cmd
}

// Limits of patience.
const (
	maxCount  = 1_000_000_000
	maxRounds = 1_000_000
)

func (c *perfCall) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&c.local, "local", false, "measure between two namespaces of this machine")
	f.BoolVar(&c.curve, "curve", false, "measure latency and bandwidth of 1 byte to 8 MiB, and say where TCP is ahead")
	f.Var(choice(&c.topology, topologyPair, topologyPair, topologyBridge, topologyHost), "topology", "how --local joins the ends: by a pair or a bridge, or both on one host (link shm)")
	f.BoolVar(&c.listen, "listen", false, "serve clients of other machines")
	f.Var(text(&c.to, "", perf.CheckTarget), "to", "measure against the --listen at this `address` or name")
	f.Var(choices(&c.apps, append(appNames(), allApps)), "apps", "run applications of Split-C on this machine, all or `some` of "+strings.Join(appNames(), ",")+", by layer and ranks")
	f.Lookup("apps").NoOptDefVal = allApps
	f.Var(numbers(&c.ranks, []int{2, 4, 8, 16}, 1, maxDemoRanks), "ranks", "on how many ranks --apps runs them, beside one")
	f.Var(number(&c.perHost, 1, 1, maxDemoRanks), "per-host", "how many of these are in a namespace, as the processes of one host")
	list := func(field *[]string, name string, values []string, text string) {
		f.Var(choices(field, values), name, fmt.Sprintf("%s: some of %s (default all)", text, strings.Join(values, ",")))
	}
	list(&c.plan.Stacks, "stacks", perf.Stacks(), "what to measure")
	f.Var(choices(&c.plan.Tests, perf.Tests), "tests", "which tests: some of "+strings.Join(perf.Tests, ",")+" (default all but primitives, bulk and barrier, and logp only of am2)")
	f.Var(numbers(&c.plan.Sizes, nil, 1, perf.MaxSize), "sizes", "message sizes in `bytes`, for every test (default 64 for latency, rate and read, 1048576 for bandwidth, bidirectional and write, 64,4096,1048576 for overhead, 16 for logp, 4 to 1048576 for bulk; primitives are of 4, barriers of 0)")
	f.Var(numbers(&c.plan.MTUs, nil, ethertype.MinMTU, ethertype.MaxMTU), "mtu", "MTUs of the links that --local makes (default 1500)")
	list(&c.plan.Levels, "reliability", perf.Levels, "reliability levels of vipl")
	list(&c.plan.Waits, "wait", perf.Waits, "how raw, vipl, mplite, am2, vmmc, vrpc, splitc and stream wait")
	f.Var(choices(&c.plan.Links, perf.Links), "link", "drivers of raw, vipl, mplite, am2, vmmc, vrpc, splitc and stream: "+strings.Join(perf.Links, ",")+" (default that of --driver)")
	list(&c.plan.Layers, "layer", perf.Layers, "communication layers of splitc")
	f.Var(choices(&c.plan.XDP, perf.Choices), "xdp", "whether the ring driver sends through AF_XDP: some of "+strings.Join(perf.Choices, ",")+" (default auto: what it measures to be faster)")
	f.Var(choices(&c.plan.Long, perf.Choices), "long", "whether the ring driver carries frames beyond the MTU: some of "+strings.Join(perf.Choices, ",")+" (default auto: on veth)")
	f.Var(numbers(&c.plan.Credits, nil, 1, endpoint.MaxCredits), "credits", "how many requests am2 has under way at most: its rate is measured with each `number`, all else with the first (default 128,64,4)")
	f.Var(number(&c.plan.Count, 0, 1, maxCount), "count", "messages in each measurement (default as many as fit its samples' time)")
	f.Var(number(&c.plan.Rounds, perf.DefaultRounds, 1, maxRounds), "rounds", "samples of each measurement")
	f.Var(period(&c.plan.Sample, perf.DefaultSample, time.Microsecond, time.Hour), "sample", "length of a sample")
	f.BoolVar(&c.json, "json", false, "print one JSON object per measurement")
	f.Var(output(&c.plot, ""), "plot", "draw latency, bandwidth, overhead and bulk over size, primitives, and the signatures of logp, to the PNG `FILE`")
	nicFlags(cmd, &c.nic)
	f.Var(address(&c.ip), "ip", "IP `address` of that interface, to measure tcp, udp and vrpc by default as well, or by another address than its first")
	f.Var(listenAt(&c.metrics), "metrics", "`address` where to serve Prometheus metrics while measuring; with --local the client's as rank 0's and the server's as rank 1's, as lab --metrics does")
	f.Var(output(&c.pcap, ""), "pcap", "write the frames measured to `FILE` for Wireshark, --local's server's to a file with -server before the extension; takes time")
	f.Var(output(&c.profiles.CPU, ""), "cpuprofile", "write a CPU profile of --local's client to `FILE`, of its server to one with -server before the extension")
	f.Var(output(&c.profiles.Memory, ""), "memprofile", "the same for a profile of allocations, to such `FILE`s")
}

// check refuses flags that do not go together.
func (c *perfCall) check(cmd *cobra.Command) error {
	modes := 0
	for _, on := range []bool{c.local, c.listen, c.to != "", c.apps != nil} {
		if on {
			modes++
		}
	}
	if c.curve && modes == 0 {
		c.local, modes = true, 1
	}
	c.plan.Sealed = c.local && cmd.Flags().Changed("key")
	c.key = cmd.Flag("key").Value.String()
	if modes != 1 {
		return errors.New("perf wants one of --local, --curve, --listen, --to and --apps; see: bobnet perf --help")
	}
	if c.apps != nil {
		return c.checkApps(cmd)
	}
	for _, name := range []string{"ranks", "per-host"} {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has no meaning without --apps", name)
		}
	}
	without := []string{"mtu", "topology", "cpuprofile", "memprofile"}
	if c.local {
		without = []string{"iface", "ip"}
	} else if c.listen {
		without = append(without, "curve", "stacks", "tests", "sizes", "reliability", "wait", "link", "xdp", "long", "credits", "count", "rounds", "sample", "json", "plot")
	}
	for _, name := range without {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has no meaning with %s", name, c.mode())
		}
	}
	if err := c.checkCurve(cmd); err != nil {
		return err
	}
	if c.plot != "" && !slices.ContainsFunc(c.plan.Tests, drawn) && len(c.plan.Tests) > 0 {
		return fmt.Errorf("--plot draws the tests %s, and none of them is asked for", strings.Join(drawnTests, ", "))
	}
	return c.plan.Validate()
}

// The values of --topology.
const (
	topologyPair   = "pair"
	topologyBridge = "bridge"
	topologyHost   = "host"
)

// checkCurve completes the plan of --curve, and the links of --topology.
func (c *perfCall) checkCurve(cmd *cobra.Command) error {
	if c.topology == topologyHost {
		if cmd.Flags().Changed("link") {
			return errors.New("--topology host runs both ends over shared memory: leave --link out")
		}
		c.plan.Links = []string{"shm"}
	}
	if !c.curve {
		return nil
	}
	if i := slices.IndexFunc(c.plan.Tests, func(test string) bool { return test != perf.Latency && test != perf.Bandwidth }); i >= 0 {
		return fmt.Errorf("--curve is of the tests %s and %s, not of %s", perf.Latency, perf.Bandwidth, c.plan.Tests[i])
	}
	if !cmd.Flags().Changed("rounds") {
		c.plan.Rounds = 0
	}
	if !cmd.Flags().Changed("sample") {
		c.plan.Sample = 0
	}
	c.plan = c.plan.Curve()
	return nil
}

func (c *perfCall) mode() string {
	switch {
	case c.local:
		return "--local"
	case c.listen:
		return "--listen"
	}
	return "--to"
}

func (c *perfCall) run(ctx context.Context, out, errOut io.Writer) (err error) {
	if err := c.checkPlot(); err != nil {
		return err
	}
	if c.apps != nil {
		return c.runApps(ctx, out, errOut)
	}
	if c.nic, err = c.nic.FromEnvironment(); err != nil {
		return err
	}
	if len(c.plan.Links) == 0 && c.nic.Driver != "" {
		c.plan.Links = []string{c.nic.Driver}
	}
	if c.local {
		if c.plan.Sealed {
			if err := passKey(c.key); err != nil {
				return err
			}
		}
		return c.runLocal(ctx, out, errOut)
	}
	watch, done, err := watchFor(c.metrics)
	if err != nil {
		return err
	}
	defer done()
	file, wrap, err := capture(c.pcap)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	at := perf.Station{NIC: c.nic, IP: c.ip, Watch: watch, Wrap: wrap}
	if c.listen {
		return perf.Listen(ctx, at, func(addr ethertype.Addr, name string) {
			fmt.Fprintf(out, "listening at %v; on another machine of the segment: bobnet perf --to %s\n", addr, name)
		})
	}
	show := newProgress(errOut)
	records, err := perf.Dial(ctx, at, c.to, c.plan, show.sample)
	show.end()
	return errors.Join(c.show(out, records), err)
}

func (c *perfCall) runLocal(ctx context.Context, out, errOut io.Writer) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	half, err := perfHalf()
	if err != nil {
		return err
	}
	defer c.buildLibtirpc(ctx, errOut)()
	show := newProgress(errOut)
	cfg := perf.LocalConfig{Half: half, Profiles: c.profiles, Pcap: c.pcap, Progress: show.sample}
	if c.topology == topologyBridge {
		cfg.Topology = lab.Bridge
	}
	cfg.Lab = func(l *lab.Lab, ranks [2]int) (env [2][]string, done func(), err error) {
		if c.metrics == "" {
			return env, passQuit(l), nil
		}
		places, server, err := serveMetrics(l, c.metrics, ranks[:])
		if err != nil {
			return env, nil, err
		}
		for i := range env {
			env[i] = []string{places[i].env()}
		}
		quit := passQuit(l)
		return env, func() {
			server.Close()
			quit()
		}, nil
	}
	records, err := perf.Local(ctx, c.plan, cfg)
	show.end()
	return errors.Join(c.show(out, records), err)
}

// passKey tells the halves where the key file is, whatever their working directory.
func passKey(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding the key file: %w", err)
	}
	return os.Setenv(perf.EnvKeyFile, full)
}

// perfHalf returns the command line of a half.
func perfHalf() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's file: %w", err)
	}
	return []string{self, "perf", "half"}, nil
}

// show prints and draws what was measured.
func (c *perfCall) show(out io.Writer, records []perf.Record) error {
	return errors.Join(c.print(out, records), c.draw(records))
}

func (c *perfCall) print(out io.Writer, records []perf.Record) error {
	switch {
	case !c.json && c.curve:
		return perf.WriteCurve(out, records)
	case !c.json:
		return perf.WriteTable(out, records)
	}
	enc := json.NewEncoder(out)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// buildLibtirpc makes the C program that vrpc is compared with, if vrpc is measured, or says
// why there is none. done removes it.
func (c *perfCall) buildLibtirpc(ctx context.Context, errOut io.Writer) (done func()) {
	if len(c.plan.Stacks) > 0 && !slices.Contains(c.plan.Stacks, "vrpc") {
		return func() {}
	}
	dir, err := os.MkdirTemp("", "bobnet-perf-")
	if err == nil {
		c.plan.Libtirpc, err = perf.BuildLibtirpc(ctx, dir)
	}
	if err != nil {
		fmt.Fprintf(errOut, "vrpc/libtirpc is left out: %v\n", err)
	}
	return func() { os.RemoveAll(dir) }
}

// watchFor dumps what perf or ping opens on SIGQUIT, tells the node's agent of it, and serves its metrics at
// addr if that is not empty, until done is called. perf's NICs come and go with
// the samples.
func watchFor(addr string) (watch perf.Watcher, done func(), err error) {
	collector := metrics.NewCollector(nil)
	if done, err = collector.Instrument(addr); err != nil {
		return nil, nil, err
	}
	watch = func(o perf.Opened) func() {
		var forget []func()
		if o.NIC != nil {
			forget = append(forget, collector.WatchNIC(o.NIC))
		}
		if o.Comm != nil {
			forget = append(forget, collector.WatchComm(o.Comm))
		}
		if o.Node != nil {
			forget = append(forget, collector.WatchNode(o.Node))
		}
		if o.Process != nil {
			forget = append(forget, collector.WatchProcess(o.Process))
		}
		if o.World != nil {
			forget = append(forget, collector.WatchWorld(o.World))
		}
		if o.Server != nil {
			forget = append(forget, collector.WatchRPC(o.Server))
		}
		return func() {
			for _, f := range forget {
				f()
			}
		}
	}
	return watch, done, nil
}

// drawnTests are what --plot has a picture for.
var drawnTests = []string{perf.Latency, perf.Bandwidth, perf.Bidirectional, perf.Overhead, perf.LogP, perf.Primitives, perf.Bulk}

func drawn(test string) bool { return slices.Contains(drawnTests, test) }

// checkPlot finds out before the measurement whether the file of --plot can be
// written. What it contains stays until there is a new picture.
func (c *perfCall) checkPlot() error {
	if err := userfile.Check(c.plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// draw writes the picture of --plot.
func (c *perfCall) draw(records []perf.Record) error {
	if c.plot == "" || len(records) == 0 {
		return nil
	}
	f, err := userfile.Create(c.plot)
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	write := perf.WritePlot
	if c.curve {
		write = perf.WriteCurvePlot
	}
	return errors.Join(write(f, records), f.Close())
}
