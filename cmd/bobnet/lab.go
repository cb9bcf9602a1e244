package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// continueUsage is the help of --continue, for lab and run.
const continueUsage = "let the other ranks continue when one fails, and report the failed ranks at the end"

// bindUsage is the help of --bind, for lab and run.
const bindUsage = "bind each rank to its own processor, as MPI launchers do; needs as many processors as ranks"

const labLong = `Create network namespaces joined into one Ethernet segment, run CMD as one rank in each,
and remove everything when the last rank has ended. It runs as root, or in an unprivileged
user namespace if the system allows that.

A rank reaches the segment through the interface bob0 (IPv4 address 10.88.0.(namespace+1)).
Its environment contains BOBNET_RANK, BOBNET_SIZE, BOBNET_JOB and BOBNET_IFACE, and with
--metrics also BOBNET_METRICS, the address at which it serves its metrics.

With --per-host R, each namespace is a host with R ranks, which share bob0 and the host's
memory: -n 8 --per-host 2 makes four hosts with two ranks each. With --bind each rank runs on
its own processor, and finds the number of processors in BOBNET_PROCESSORS. Without --bind,
the kernel wakes a rank on the processor that sent its message. Sometimes two ranks then
compute on one processor for some milliseconds while another processor is idle.

Standard input goes to rank 0. The first rank that fails ends the others. With --continue all
ranks run to their end, and the last line reports which failed and how. The exit code is the
worst of all ranks.

SIGQUIT (Ctrl-\) goes to all ranks. A program that calls metrics.Collector.DumpOnQuit, such
as perf, ping, demo and the examples, prints its state and continues. Any other Go program
prints the stacks of its goroutines and exits.

With --loss, --dup, --reorder, --corrupt, --delay and --jitter, every Bobnet program in the
lab injects these faults into the frames that it sends. BOBNET_FAULT passes them to the
programs; the lab prints the seed at the start. With --corrupt no frame is longer than the
MTU, because the CRC then covers whole frames.

` + labFabric + `

` + labCuts + `

` + labPlan

func newLabCmd() *cobra.Command {
	var (
		cfg      lab.Config
		topology string
		fabric   string
		metrics  string
		faults   fault.Options
		goOn     bool
		plan     planCall
	)
	cmd := &cobra.Command{
		Use:   "lab [flags] -- CMD [ARGS...]",
		Short: "Run a command as ranks in joined network namespaces",
		Long:  labLong,
		Example: "  bobnet lab -n 4 -- ip -brief address\n  bobnet lab -n 8 --per-host 2 -- ./fft3d\n  bobnet lab -n 2 --bind -- ./cg -serial\n  bobnet lab -n 2 --mtu 9000 -- ./pingpong\n" +
			"  bobnet lab --loss 2% --reorder 1% --delay 100us -- ./pingpong\n" +
			"  bobnet lab -n 4 --partition 0,1/2,3@3s+5s --flap 1@10s+500ms -- ./heat\n" +
			"  bobnet lab --fabric two -- ./pingpong\n" +
			"  bobnet lab --plan 64,256,1024",
		Args: usage(plan.args),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := plan.check(cmd); err != nil {
				return err
			}
			if len(plan.ranks) > 0 {
				return plan.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			if cfg.Topology, err = lab.ParseTopology(topology); err != nil {
				return usageError{err}
			}
			if fabric != "" {
				if cmd.Flags().Changed("ranks") || cmd.Flags().Changed("topology") {
					return usageError{errors.New("lab: --fabric defines the number of ranks and their topology: leave out --ranks and --topology")}
				}
				cfg.N = 0
				if cfg.Fabric, err = readFabric(fabric); err != nil {
					return usageError{err}
				}
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			if err := checkFaults(cmd, &faults); err != nil {
				return usageError{err}
			}
			return runLab(cmd.Context(), cfg, faults, goOn, metrics, args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // CMD's own flags are not ours
	flags.VarP(number(&cfg.N, 2, 1, lab.MaxRanks), "ranks", "n", "number of ranks")
	flags.Var(number(&cfg.PerHost, 1, 1, lab.MaxRanks), "per-host", "number of ranks that share a namespace and its bob0")
	flags.BoolVar(&cfg.Bind, "bind", false, bindUsage)
	flags.Var(number(&cfg.MTU, 0, vipl.MinMTU, ethertype.MaxMTU), "mtu", "MTU of every bob0 in bytes; by default the largest one, with --fabric 9000")
	flags.BoolVar(&goOn, "continue", false, continueUsage)
	flags.Var(choice(&topology, "auto", "auto", "pair", "bridge"), "topology", "how to join the ranks: pair, bridge, or auto (a pair for two ranks without link failures)")
	flags.Var(fabricFile(&fabric), "fabric", "emulate the Myrinet that `FILE` describes, with its hosts as ranks; one, two and fattree are built in")
	flags.Var(listenAt(&metrics), "metrics", "serve the ranks' metrics on this `address` (:port means localhost): an index at /, /rank/0/metrics, ..., and /targets for Prometheus")
	faultFlags(cmd, &faults)
	cutFlags(cmd, &cfg.Cuts)
	plan.flags(cmd)
	return cmd
}

// runLab creates the lab, runs the command in it and removes the lab.
func runLab(ctx context.Context, cfg lab.Config, faults fault.Options, goOn bool, metrics string, args []string) error {
	if err := lab.ReexecIfNeeded(); err != nil {
		return err
	}
	l, err := lab.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer l.Close()
	defer passQuit(l)()
	opts := lab.RunOptions{Env: faultEnv(faults, os.Stderr), Stdin: os.Stdin, Stdout: stdout, Prefix: true, OnCut: sayCut(os.Stderr), Continue: goOn}
	if cfg.Fabric != nil {
		work, stop, err := startSwitches(ctx, l, cfg.Fabric)
		if err != nil {
			return err
		}
		defer stop()
		ctx = work
		if os.Getenv(vipl.EnvDriver) == "" {
			opts.Env = append(opts.Env, vipl.EnvDriver+"=myrinet")
		}
	}
	if metrics != "" {
		ranks := make([]int, l.Size())
		for rank := range ranks {
			ranks[rank] = rank
		}
		places, server, err := serveMetrics(l, metrics, ranks)
		if err != nil {
			return err
		}
		defer server.Close()
		opts.RankEnv = func(rank int) []string { return []string{places[rank].env()} }
	}
	return l.Run(ctx, args, opts)
}

const labCuts = `With --flap, --partition and --mtu-drop, links fail and recover while CMD runs. The format
is WHAT@START+DURATION, with times from the start of the job. Without @START the failure
begins with the job; without +DURATION it lasts to the end. Ranks are listed as 0,2-4. Each
flag may be repeated, and failures may overlap. The lab reports on standard error when a
failure begins and ends.

  --flap 1@3s+500ms          bob0 of rank 1 loses its carrier, as if unplugged
  --partition 0,1/2,3@3s+5s  ranks 0 and 1 reach each other, and so do 2 and 3; all
                             other frames are silently lost. Ranks that are not
                             listed form one more group: --partition 2 isolates rank 2
  --mtu-drop 1500@3s+5s      frames longer than an MTU of 1500 are silently lost
                             between any two ranks

The ranks are then joined by a bridge, where no frame is longer than the MTU.`

// cutFlag is a flag that adds its values to a list of cuts.
type cutFlag struct {
	kind lab.Kind
	cuts *[]lab.Cut
}

func (f cutFlag) String() string {
	var texts []string
	for _, c := range *f.cuts {
		if c.Kind == f.kind {
			texts = append(texts, c.String())
		}
	}
	return strings.Join(texts, " ")
}

func (f cutFlag) Set(text string) error {
	c, err := lab.ParseCut(f.kind, text)
	if err == nil {
		*f.cuts = append(*f.cuts, c)
	}
	return bare(err, fmt.Sprintf("lab: %v %q: ", f.kind, text))
}

func (cutFlag) Type() string { return "cut" }
func (cutFlag) hints() hint  { return hint{} }

// cutFlags adds the flags for link failures.
func cutFlags(cmd *cobra.Command, cuts *[]lab.Cut) {
	for _, f := range []struct {
		kind lab.Kind
		text string
	}{
		{lab.Flap, "remove the carrier of the `links` of some ranks for a time: 1@3s+500ms"},
		{lab.Partition, "separate `groups` of ranks for a time: 0,1/2,3@3s+5s"},
		{lab.MTUDrop, "drop frames longer than this `MTU` on the path for a time: 1500@3s+5s"},
	} {
		cmd.Flags().Var(cutFlag{f.kind, cuts}, f.kind.String(), f.text)
	}
}

// sayCut returns a function that reports a cut on w.
func sayCut(w io.Writer) func(c lab.Cut, begun bool) {
	return func(c lab.Cut, begun bool) {
		what := "ends"
		if begun {
			what = "begins"
		}
		fmt.Fprintf(w, "bobnet: %v %v %s\n", c.Kind, c, what)
	}
}

const labFabric = `With --fabric the ranks are the hosts of an emulated Myrinet. FILE lists hosts, switches and
links (format: bobnet map --help); one, two and fattree are built in. Each host and each
switch is a namespace, and each link a veth pair. Bobnet switch runs in each switch, and is
restarted if it is killed. Bobnet's programs use driver myrinet (BOBNET_DRIVER), whose mapper
finds the routes to the other hosts. BOBNET_HOST is the host's name in FILE.`

// startSwitches runs a process in each switch of the lab, until stop is called or the lab is
// closed. If a switch fails, it cancels work.
func startSwitches(ctx context.Context, l *lab.Lab, f *topology.File) (work context.Context, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("lab: find this program's file, to run the switches: %w", err)
	}
	work, cancel := context.WithCancelCause(ctx)
	for i := range l.Switches() {
		p, err := startSwitch(l, f, program, i)
		if err != nil {
			cancel(err)
			return nil, nil, err
		}
		go keepSwitch(work, cancel, l, f, program, i, p)
	}
	return work, func() { cancel(nil) }, nil
}

func startSwitch(l *lab.Lab, f *topology.File, program string, i int) (*lab.Proc, error) {
	cmd := exec.Command(program, "switch", "--name", f.Switches[i], "--ports", fmt.Sprint(f.Ports))
	for _, p := range l.SwitchPorts(i) {
		cmd.Args = append(cmd.Args, "--port", fmt.Sprintf("%d=%s", p.Port, p.Interface))
	}
	cmd.Stderr = os.Stderr
	return l.StartSwitch(i, cmd)
}

// keepSwitch restarts a switch that was killed. If the switch exits by itself, the lab ends.
func keepSwitch(ctx context.Context, fail context.CancelCauseFunc, l *lab.Lab, f *topology.File, program string, i int, p *lab.Proc) {
	log := logqueue.New(slog.Default()).Logger() // logging never blocks the restart of a switch
	for {
		<-p.Done()
		code := p.Code()
		if ctx.Err() != nil {
			return
		}
		if !slices.Contains([]int{128 + int(unix.SIGKILL), 128 + int(unix.SIGTERM)}, code) {
			fail(fmt.Errorf("lab: switch %s exited with code %d", f.Switches[i], code))
			return
		}
		log.Warn("restarting a switch that was killed", "switch", f.Switches[i])
		var err error
		if p, err = startSwitch(l, f, program, i); err != nil {
			if !errors.Is(err, lab.ErrClosed) {
				fail(err)
			}
			return
		}
	}
}

// rate is a flag whose value is a probability, "2%" or "0.02".
func rate(to *float64) *setting[float64] {
	parse := func(text string) (float64, error) {
		p, err := fault.ParseRate(text)
		if err != nil {
			return 0, errors.New("want 0% to 100%, or 0 to 1")
		}
		return p, nil
	}
	return &setting[float64]{to: to, kind: "rate", parse: parse, print: func(p float64) string {
		if p == 0 {
			return ""
		}
		return strconv.FormatFloat(p, 'g', -1, 64)
	}}
}

// faultFlags adds the flags for fault injection.
func faultFlags(cmd *cobra.Command, o *fault.Options) {
	flags := cmd.Flags()
	flags.Var(rate(&o.Drop), "loss", "drop this `share` of the frames: 2% or 0.02")
	flags.Var(rate(&o.Dup), "dup", "deliver this `share` of the frames twice")
	flags.Var(rate(&o.Reorder), "reorder", "let later frames overtake this `share` of the frames")
	flags.Var(rate(&o.Corrupt), "corrupt", "flip bits in this `share` of the frames")
	flags.Var(period(&o.Delay, 0, 0, time.Hour), "delay", "delay every frame by this `time`, such as 100us")
	flags.Var(period(&o.Jitter, 0, 0, time.Hour), "jitter", "add a random delay of up to this `time` to each frame")
	flags.Var(seed(&o.Seed, 0), "seed", "seed of the faults; 0 chooses a new one and prints it")
}

// checkFaults rejects inconsistent flags.
func checkFaults(cmd *cobra.Command, o *fault.Options) error {
	if !o.Active() && cmd.Flags().Changed("seed") {
		return errors.New("lab: --seed has no meaning without faults: add --loss, --dup, --reorder, --corrupt, --delay or --jitter")
	}
	return nil
}

// faultEnv returns the environment variable that passes the faults to every program in the lab,
// and prints on w how to repeat them. Without faults it returns and prints nothing.
func faultEnv(o fault.Options, w io.Writer) []string {
	if !o.Active() {
		return nil
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	fmt.Fprintf(w, "bobnet: faults on the frames of every rank: %v; to repeat them: --seed %d\n", o, o.Seed)
	return []string{vipl.EnvFault + "=" + o.String()}
}

// envMetrics names the variable with the address at which a rank serves its metrics.
const envMetrics = "BOBNET_METRICS"

// place is the port, in the namespace of a rank, at which a process of a lab serves its metrics.
type place struct {
	Rank int
	port uint16
}

// env returns the environment variable that passes the place to the process.
func (p place) env() string { return fmt.Sprintf("%s=127.0.0.1:%d", envMetrics, p.port) }

// serveMetrics serves the metrics of processes in a lab on addr, outside the lab. ranks gives the
// namespace of each process:
//
//	/                 an index of the processes, with links
//	/metrics          the same index as comments, for a scraper that treats the lab as a program
//	/rank/0/metrics   the metrics of the first process
//	/rank/0/          its own index
//	/targets          all processes, for Prometheus's http_sd_configs
//
// It returns the place at which each process must serve its metrics, and the server, which the
// caller closes.
func serveMetrics(l *lab.Lab, addr string, ranks []int) ([]place, *metrics.Server, error) {
	tree := http.NewServeMux()
	server, err := metrics.ServeHandler(addr, tree)
	if err != nil {
		return nil, nil, fmt.Errorf("--metrics: %w", err)
	}
	places := placesOf(ranks, l.Host, server.Addr().(*net.TCPAddr).Port)
	addMetrics(tree, l, places)
	slog.Info("serving metrics", "targets", fmt.Sprintf("http://%s/targets", server.Addr()))
	return places, server, nil
}

// placesOf assigns a port to each process. It is the port of the outer server, which is free in a
// new namespace, or the next port if another process of the same namespace has it. host returns
// the namespace of a rank.
func placesOf(ranks []int, host func(rank int) int, port int) []place {
	places := make([]place, len(ranks))
	before := map[int]int{}
	for i, rank := range ranks {
		places[i] = place{rank, uint16((port-1+before[host(rank)])%math.MaxUint16 + 1)}
		before[host(rank)]++
	}
	return places
}

// addMetrics adds to mux the tree that serveMetrics documents.
func addMetrics(mux *http.ServeMux, l *lab.Lab, places []place) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		indexPage.Execute(w, places) // if it fails the client is gone
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		for i, p := range places {
			fmt.Fprintf(w, "# rank %d: /rank/%d/metrics\n", p.Rank, i)
		}
		fmt.Fprint(w, "# all of them, for http_sd_configs: /targets\n")
	})
	mux.HandleFunc("GET /targets", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(targets(len(places), r.Host))
	})
	for i, p := range places {
		base := "/rank/" + strconv.Itoa(i)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", l.Addr(p.Rank), p.port)})
		proxy.Transport = &http.Transport{
			DisableKeepAlives: true, // an open socket would outlive the lab's namespace
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return l.Dial(ctx, p.Rank, p.port)
			},
		}
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
			text := fmt.Sprintf("rank %d serves no metrics: %v (programs serve them at the address in $%s: see metrics.Serve)", p.Rank, err, envMetrics)
			http.Error(w, text, http.StatusBadGateway)
		}
		mux.Handle("GET "+base+"/", http.StripPrefix(base, proxy))
	}
}

// indexPage lists the processes of a lab.
var indexPage = template.Must(template.New("index").Parse(`<!DOCTYPE html>
<title>Bobnet lab</title>
<h1>Bobnet lab</h1>
<ul>
{{range $i, $p := .}}<li>rank {{$p.Rank}}: <a href="/rank/{{$i}}/metrics">metrics</a>, <a href="/rank/{{$i}}/debug/bobnet">state</a></li>
{{end}}</ul>
<p><a href="/targets">targets</a> for Prometheus</p>
`))

// target is an entry of Prometheus's HTTP service discovery.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets lists size processes that are reachable through host.
func targets(size int, host string) []target {
	list := make([]target, size)
	for rank := range list {
		list[rank] = target{
			Targets: []string{host},
			Labels: map[string]string{
				"__metrics_path__": fmt.Sprintf("/rank/%d/metrics", rank),
				"rank":             strconv.Itoa(rank),
			},
		}
	}
	return list
}

// passQuit forwards SIGQUIT to the ranks of a lab, which print their state, until done is called.
// Ranks run in their own sessions, so a terminal's Ctrl-\ reaches only this process.
func passQuit(l *lab.Lab) (done func()) {
	signals, quit := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGQUIT)
	go func() {
		for {
			select {
			case <-signals:
				if err := l.Signal(unix.SIGQUIT); err != nil {
					slog.Warn("cannot forward SIGQUIT to the ranks", "err", err)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
	}
}
