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

const perfLong = `Measure one-way latency, bandwidth and message rate over one link. The stacks are raw frames
(raw), VIs (vipl), MPLite (mplite), active messages (am2), writes into exported memory
(vmmc), remote procedures (vrpc), Split-C (splitc), streams (stream), TCP and UDP. Perf
measures the stacks in turns, so that their ratios are meaningful even on a busy machine.

  --local    creates two network namespaces joined by veth, for each --mtu, and runs
             both ends; needs root or unprivileged user namespaces
  --listen   waits for clients on this machine's segment
  --to ADDR  measures against a --listen, given its address or the name that it prints
  --apps     runs applications in namespaces of this machine
  --collectives
             measures the collectives of mplite in namespaces of this machine

Latency is half a round trip, in microseconds. The tests read and write measure RDMA of vipl
and splitc; the time of a read is the full round trip. The cache-line time ("line ns") shows
whether the two cores were close to each other or not; only measurements in the same state
are compared. In tests of bandwidth "cpu s/GB" is the processor time of both ends, in user and
kernel mode, for each 1e9 bytes of payload, with its ratio to TCP's; an end that spins uses its
processor all the time, so its time is not shown. With --json each measurement is one line; fields
that do not apply are 0 or missing.

With --curve perf measures latency and bandwidth of all stacks, spinning and blocking, at MTU
1500, 9000 and 65535. The sizes are the powers of two from 1 byte to 8 MiB and their
neighbours. The tables have a row for each size, and list the sizes at which TCP is ahead of
each stack. --plot draws a line for each stack. --curve implies --local unless --listen or
--to is set. A full run takes about half an hour; other flags restrict it. --topology joins
the ends of --local by a bridge, with or without the senders' offloads, or runs both on one host.

With --collectives perf measures the time of a call of each collective of mplite, by the number of
--ranks and by the size of a vector, or of the part of each rank for the collectives that move a
part per rank. The ranks run in a namespace each, and then all in one, as processes of one host.
Each call is measured in two modes. In "loop" calls follow one another, so that a root may run
ahead. In "apart" a barrier, which is not timed, precedes each call. The time is that of the
slowest rank. If mpicc and mpiexec are installed, perf builds a C program that makes the same calls
with that MPI library (MPICH or Open MPI). It then runs both in turns, and prints the ratio of
mplite's time to that of the library, and the calls in which the library is ahead, worst first.

With --key FILE, perf --local measures vipl over the link ring twice, with plain and with
encrypted frames. All frames of the other stacks are encrypted.

With --link shm both ends are processes of one namespace that share memory. Three more stacks
are then available: "line" transfers a bare cache line, "handoff" transfers messages that are
copied once, and "ucx" transfers tagged messages of UCX, if its benchmark ucx_perftest is
installed. The benchmark reports medians only. UCX_TLS selects its transports.

With --link card am2, vmmc and vrpc run on cards of the emulated Myrinet, whose cable is the
interface: each half has a card of its own. With card-shared each half uses a card that another
process serves (bobnet card). Programs on cards poll for a short time and then block, whatever
--wait, and are listed as spinning. Only vmmc with --link card spins without a limit.

Am2 selects the kind of message by size. Up to 64 bytes are arguments of a short request, up
to 4096 bytes the payload of a medium request. Longer messages are bulk requests, which write
into the other side's segment. Each request gets a reply: of its own size in the test latency,
and an empty one in bandwidth and rate. The sizes of the virtual-network paper are
--sizes 16,4096,1048576.

Vmmc has no receive call. An end that spins polls the last word of the message in its
memory; an end that blocks waits for a notification. Only vmmc has the tests bidirectional and
overhead, from the VMMC paper. In bidirectional both ends send concurrently, and wait for
each other's message before they send again; the result is the total of both. Overhead is the
time of the send call while the other end is idle. A synchronous call returns when
the source may be reused, an asynchronous one when the send is posted. --plot draws the
paper's figures 2, 3 and 4 with the sizes of the example.

Vrpc makes one call after the other. In the test latency arguments and results have the given
size; the null procedure is measured first, as messages of 0 bytes. In the test bandwidth each
reply has the given size. The same service runs over VMMC (also with replies left in place),
TCP and UDP; the table compares them with TCP. With --local the table also shows a C program
of the RPC library libtirpc over TCP ("vrpc/libtirpc"), if it can be built.

Splitc runs two Split-C processes over each of --layer. The tests latency, rate and bandwidth
use stores, read uses blocking reads, write uses puts. Only splitc has the tests primitives
and bulk, figures 6-3 and 6-4 of its paper: the mean time of many reads, writes, gets, puts and
stores of an int, or of more. The other process is idle, or (two-way) does the same. The paper
uses --count 10000. --plot draws both figures. --stacks splitc,vipl,am2 adds VIA and active
messages, as in figure 6-1; for them the test logp is figure 6-2.

The test barrier of splitc and mplite is the time of one barrier between both ends. A barrier
is one message in each direction, so it is comparable with latency.

With --apps the applications of the Split-C paper run at its sizes over each of --layer, on each
of --ranks and on one rank, as in figure 6-5. The table shows their time, and their speed-up
over one process. The work of em3d grows with the ranks; its speed-up takes this into account.
Each rank is bound to its own processor. If a run has more ranks than processors, its ranks are
not bound, and the run is marked.

The test logp determines the parameters of the LogP model for short and medium requests of
am2, by the method of "Assessing Fast Network Interfaces" (Culler, Liu, Martin, Yoshikawa). It
sends bursts of 1 to 512 requests, which get replies of the same kind, with delays of 0 to
50 us between the requests, and averages the time of a request:

  o_s  send overhead: the time of a single request
  g    gap: the time of each further request of a long burst without delay
  o_r  receive overhead: the time beyond o_s and the delay, for delays longer than the
       gap, and longer than the round trip if there are such
  L    latency: RTT/2 - o_s - o_r

g can be much less than o_s, because a single request needs a system call, and back-to-back
requests share a frame. L is small or negative if the sender's own processor carries the frame
to the receiver, as over veth: o_s then includes the transfer, and the call returns after the
receiver has started to work. Splitc has the test if it is named: with puts, which the other
end's layer answers, and with stores, which the other process answers by stores. They poll
after each delay; o_r is the time of a poll that finds an answer. A sample of logp is one sweep,
whatever --sample and --count are.`

const perfExample = `  bobnet perf --local
  bobnet perf --local --json --stacks raw,vipl,tcp --tests latency --wait spin
  bobnet perf --local --mtu 1500,9000,65535 --tests bandwidth --sizes 65536,1048576
  bobnet perf --local --link shm --stacks line,handoff,vipl --wait spin
  bobnet perf --local --link card,card-shared --stacks am2,vmmc --tests latency,rate --wait spin
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
  bobnet perf --collectives --ranks 2,4 --topology host
  bobnet perf --collectives=bcast,allreduce --sizes 8,65536 --json
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
	key      string // path of the key file
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

	collectives []string
	coll        *perf.CollPlan // with --collectives
}

func newPerfCmd() *cobra.Command {
	var call perfCall
	cmd := &cobra.Command{
		Use:     "perf --local | --curve | --listen | --to ADDR | --apps | --collectives",
		Short:   "Measure latency, bandwidth and message rate of each stack",
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
	cmd.AddCommand(newPerfAppCmd(), newPerfCollectiveCmd(), &cobra.Command{
		Use:    "half",
		Short:  "Run one of the two processes of perf --local",
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

// Limits of --count and --rounds.
const (
	maxCount  = 1_000_000_000
	maxRounds = 1_000_000
)

func (c *perfCall) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&c.local, "local", false, "measure between two namespaces of this machine")
	f.BoolVar(&c.curve, "curve", false, "measure latency and bandwidth from 1 byte to 8 MiB, and list the sizes at which TCP is ahead")
	f.Var(choice(&c.topology, topologyPair, topologyPair, topologyBridge, topologyCut, topologyHost), "topology", "how --local joins the ends, and --collectives the ranks (default there: pair, and then host): by a pair (more than two ranks: a bridge), a bridge, a bridge with the senders' offloads off (bridge-cut), or on one host (link shm)")
	f.BoolVar(&c.listen, "listen", false, "serve clients of other machines")
	f.Var(text(&c.to, "", perf.CheckTarget), "to", "measure against the --listen with this `address` or name")
	f.Var(choices(&c.apps, append(appNames(), allApps)), "apps", "run Split-C applications on this machine, by layer and ranks: all or `some` of "+strings.Join(appNames(), ","))
	f.Lookup("apps").NoOptDefVal = allApps
	f.Var(choices(&c.collectives, append(perf.CollNames(), allCollectives)), "collectives", "measure collectives of mplite, beside MPI's: all or `some` of "+strings.Join(perf.CollNames(), ","))
	f.Lookup("collectives").NoOptDefVal = allCollectives
	f.Var(numbers(&c.ranks, []int{2, 4, 8, 16}, 1, maxDemoRanks), "ranks", "numbers of ranks for --apps, in addition to one, and for --collectives (default there 2,4,8)")
	f.Var(number(&c.perHost, 1, 1, maxDemoRanks), "per-host", "number of these ranks per namespace, as processes of one host")
	list := func(field *[]string, name string, values []string, text string) {
		f.Var(choices(field, values), name, fmt.Sprintf("%s: some of %s (default all)", text, strings.Join(values, ",")))
	}
	list(&c.plan.Stacks, "stacks", perf.Stacks(), "stacks to measure")
	f.Var(choices(&c.plan.Tests, perf.Tests), "tests", "tests to run: some of "+strings.Join(perf.Tests, ",")+" (default all except primitives, bulk and barrier, and logp for am2 only)")
	f.Var(numbers(&c.plan.Sizes, nil, 1, perf.MaxSize), "sizes", "message sizes in `bytes`, for every test (default 8 to 1048576 for --collectives, 64 for latency, rate and read, 1048576 for bandwidth, bidirectional and write, 64,4096,1048576 for overhead, 16 for logp, 4 to 1048576 for bulk; primitives always use 4, barriers 0)")
	f.Var(numbers(&c.plan.MTUs, nil, ethertype.MinMTU, ethertype.MaxMTU), "mtu", "MTUs of the links that --local creates (default 1500)")
	list(&c.plan.Levels, "reliability", perf.Levels, "reliability levels of vipl")
	list(&c.plan.Waits, "wait", perf.Waits, "how raw, vipl, mplite, am2, vmmc, vrpc, splitc and stream wait")
	f.Var(choices(&c.plan.Links, perf.Links), "link", "drivers of raw, vipl, mplite, am2, vmmc, vrpc, splitc and stream, and cards of am2, vmmc and vrpc: "+strings.Join(perf.Links, ",")+" (default: the one of --driver)")
	list(&c.plan.Layers, "layer", perf.Layers, "communication layers of splitc")
	f.Var(choices(&c.plan.XDP, perf.Choices), "xdp", "whether the ring driver sends through AF_XDP: some of "+strings.Join(perf.Choices, ",")+" (default auto: the faster way in a measurement)")
	f.Var(choices(&c.plan.Long, perf.Choices), "long", "whether the ring driver carries frames beyond the MTU: some of "+strings.Join(perf.Choices, ",")+" (default auto: on veth)")
	f.Var(numbers(&c.plan.Credits, nil, 1, endpoint.MaxCredits), "credits", "maximum `number` of am2 requests in flight: the test rate uses each value, other tests the first (default 128,64,4)")
	f.Var(number(&c.plan.Count, 0, 1, maxCount), "count", "number of messages in each measurement (default: as many as fit into its samples)")
	f.Var(number(&c.plan.Rounds, perf.DefaultRounds, 1, maxRounds), "rounds", "number of samples of each measurement")
	f.Var(period(&c.plan.Sample, perf.DefaultSample, time.Microsecond, time.Hour), "sample", "duration of a sample")
	f.BoolVar(&c.json, "json", false, "print one JSON object per measurement")
	f.Var(output(&c.plot, ""), "plot", "draw latency, bandwidth, overhead and bulk by size, primitives, and the signatures of logp into the PNG `FILE`")
	nicFlags(cmd, &c.nic)
	f.Var(address(&c.ip), "ip", "IP `address` of that interface (default its first one); measure tcp, udp and vrpc even without --stacks")
	f.Var(listenAt(&c.metrics), "metrics", "serve Prometheus metrics at this `address` during the measurement; with --local those of the client as rank 0 and of the server as rank 1, like lab --metrics")
	f.Var(output(&c.pcap, ""), "pcap", "write the measured frames to `FILE` for Wireshark, and those of --local's server to a file with -server before the extension; slows the measurement")
	f.Var(output(&c.profiles.CPU, ""), "cpuprofile", "write a CPU profile of --local's client to `FILE`, and of its server to a file with -server before the extension")
	f.Var(output(&c.profiles.Memory, ""), "memprofile", "write a profile of allocations to `FILE`, and to a second file as for --cpuprofile")
}

// check rejects inconsistent flags.
func (c *perfCall) check(cmd *cobra.Command) error {
	modes := 0
	for _, on := range []bool{c.local, c.listen, c.to != "", c.apps != nil, c.collectives != nil} {
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
		return errors.New("perf: want one of --local, --curve, --listen, --to, --apps and --collectives (see: bobnet perf --help)")
	}
	if c.apps != nil {
		return c.checkApps(cmd)
	}
	if c.collectives != nil {
		return c.checkCollectives(cmd)
	}
	for _, flag := range [][2]string{{"ranks", "--apps or --collectives"}, {"per-host", "--apps"}} {
		if cmd.Flags().Changed(flag[0]) {
			return fmt.Errorf("--%s has no meaning without %s", flag[0], flag[1])
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
	if c.pcap != "" && slices.ContainsFunc(c.plan.Links, perf.OnCard) {
		return errors.New("--pcap records no packets of cards: leave --link card and card-shared out, or record their interface with tcpdump")
	}
	if c.plot != "" && !slices.ContainsFunc(c.plan.Tests, drawn) && len(c.plan.Tests) > 0 {
		return fmt.Errorf("--plot: none of the tests can be drawn: want %s", strings.Join(drawnTests, ", "))
	}
	return c.plan.Validate()
}

// The values of --topology.
const (
	topologyPair   = "pair"
	topologyBridge = "bridge"
	topologyCut    = "bridge-cut" // the senders' kernels cut long frames, and segments of TCP
	topologyHost   = "host"
)

// checkCurve completes the plan of --curve, and the links of --topology.
func (c *perfCall) checkCurve(cmd *cobra.Command) error {
	if c.topology == topologyHost {
		if cmd.Flags().Changed("link") {
			return errors.New("--topology host always uses the link shm: leave --link out")
		}
		c.plan.Links = []string{"shm"}
	}
	if !c.curve {
		return nil
	}
	if i := slices.IndexFunc(c.plan.Tests, func(test string) bool { return test != perf.Latency && test != perf.Bandwidth }); i >= 0 {
		return fmt.Errorf("--curve measures %s and %s, not %s", perf.Latency, perf.Bandwidth, c.plan.Tests[i])
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
	if c.coll != nil {
		return c.runCollectives(ctx, out, errOut)
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
	_, card, err := perfProcesses()
	if err != nil {
		return err
	}
	at := perf.Station{NIC: c.nic, IP: c.ip, Watch: watch, Wrap: wrap, Card: card}
	if c.listen {
		return perf.Listen(ctx, at, func(addr ethertype.Addr, name string) {
			fmt.Fprintf(out, "listening at %v; on another machine of the segment run: bobnet perf --to %s\n", addr, name)
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
	half, card, err := perfProcesses()
	if err != nil {
		return err
	}
	defer c.buildLibtirpc(ctx, errOut)()
	if err := c.findUCX(errOut); err != nil {
		return err
	}
	show := newProgress(errOut)
	cfg := perf.LocalConfig{Half: half, Card: card, Profiles: c.profiles, Pcap: c.pcap, Progress: show.sample}
	if c.topology == topologyBridge || c.topology == topologyCut {
		cfg.Topology, cfg.Segment = lab.Bridge, c.topology == topologyCut
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

// passKey passes the absolute path of the key file to the halves.
func passKey(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find the key file: %w", err)
	}
	return os.Setenv(perf.EnvKeyFile, full)
}

// perfProcesses returns the command lines of a half, and of a process that serves a card.
func perfProcesses() (half, card []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find this program's file: %w", err)
	}
	return []string{self, "perf", "half"}, []string{self, "card"}, nil
}

// show prints and draws the measurements.
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

// buildLibtirpc builds the C program for the comparison with vrpc, if vrpc is measured, or prints
// why it cannot. done removes the program.
func (c *perfCall) buildLibtirpc(ctx context.Context, errOut io.Writer) (done func()) {
	if len(c.plan.Stacks) > 0 && !slices.Contains(c.plan.Stacks, "vrpc") {
		return func() {}
	}
	dir, err := os.MkdirTemp("", "bobnet-perf-")
	if err == nil {
		c.plan.Libtirpc, err = perf.BuildLibtirpc(ctx, dir)
	}
	if err != nil {
		fmt.Fprintf(errOut, "vrpc/libtirpc not measured: %v\n", err)
	}
	return func() { os.RemoveAll(dir) }
}

// findUCX finds UCX's benchmark if the link shm is measured. Without the benchmark it prints that the
// stack is left out, or returns the error if the user has named the stack.
func (c *perfCall) findUCX(errOut io.Writer) (err error) {
	named := slices.Contains(c.plan.Stacks, "ucx")
	if !slices.Contains(c.plan.Links, "shm") || len(c.plan.Stacks) > 0 && !named {
		return nil
	}
	c.plan.UCX, err = perf.FindUCX()
	if err != nil && !named {
		fmt.Fprintf(errOut, "ucx not measured: %v\n", err)
		return nil
	}
	return err
}

// watchFor dumps the state of everything that perf or ping opens on SIGQUIT, and reports it to the
// node's agent. If addr is not empty, it also serves metrics there. done ends all of this. watch adds
// and removes objects, because perf opens new NICs for each sample.
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

// drawnTests lists the tests that --plot can draw.
var drawnTests = []string{perf.Latency, perf.Bandwidth, perf.Bidirectional, perf.Overhead, perf.LogP, perf.Primitives, perf.Bulk}

func drawn(test string) bool { return slices.Contains(drawnTests, test) }

// checkPlot checks before the measurement that the file of --plot can be written. It does not
// change the file.
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
