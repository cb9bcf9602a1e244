package main

import (
	"context"
	"errors"
	"os"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

// continueUsage is of lab and run.
const continueUsage = "let the other ranks go on when one fails, and say at the end which have failed"

// bindUsage is of lab and run.
const bindUsage = "bind each rank to a processor of its own, as launchers of MPI do; there must be as many"

const labLong = `Make network namespaces joined into one Ethernet segment, run CMD as one rank
in each, and remove everything when the last rank has ended. It runs as root,
or in an unprivileged user namespace where the system allows that.

A rank finds its segment on the interface bob0 (IPv4 address 10.88.0.(namespace+1))
and in its environment BOBNET_RANK, BOBNET_SIZE, BOBNET_JOB and BOBNET_IFACE,
and BOBNET_METRICS, the address to serve its metrics on, with --metrics.
With --per-host R they are hosts of R ranks each, which share a namespace, its bob0
and the host's memory: -n 8 --per-host 2 is four two-way hosts. With --bind each rank
runs on a processor of its own, as launchers of MPI have it, and finds their number in
BOBNET_PROCESSORS. Else the kernel, which
wakes a rank where its message was sent, now and then has two compute on one
processor for some milliseconds, while another one is idle.

Standard input goes to rank 0. The first rank to fail ends the others, unless --continue
is given: then all run to their end, what is printed last says which have failed and how,
and the exit code is the worst of all. SIGQUIT
(Ctrl-\) goes to all: a program that calls metrics.Collector.DumpOnQuit, as perf,
ping, demo and the examples do, prints what it waits for, and goes on; any other
Go program prints its goroutines' stacks, and ends.

With --loss, --dup, --reorder, --corrupt, --delay and --jitter every Bobnet
program in the lab treats the frames that it sends so, each direction for
itself. BOBNET_FAULT in its environment says so; what is printed at the start
names the seed. With --corrupt no frame is longer than the MTU, as others may be
in a pair, because the CRC then covers whole frames.

` + labFabric + `

` + labCuts

func newLabCmd() *cobra.Command {
	var (
		cfg      lab.Config
		topology string
		fabric   string
		metrics  string
		faults   fault.Options
		goOn     bool
	)
	cmd := &cobra.Command{
		Use:   "lab [flags] -- CMD [ARGS...]",
		Short: "Run a command as every rank, in network namespaces joined by Ethernet",
		Long:  labLong,
		Example: "  bobnet lab -n 4 -- ip -brief address\n  bobnet lab -n 8 --per-host 2 -- ./fft3d\n  bobnet lab -n 2 --bind -- ./cg -serial\n  bobnet lab -n 2 --mtu 9000 -- ./pingpong\n" +
			"  bobnet lab --loss 2% --reorder 1% --delay 100us -- ./pingpong\n" +
			"  bobnet lab -n 4 --partition 0,1/2,3@3s+5s --flap 1@10s+500ms -- ./heat\n" +
			"  bobnet lab --fabric two -- ./pingpong",
		Args: usage(wants("a command to run")),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cfg.Topology, err = lab.ParseTopology(topology); err != nil {
				return usageError{err}
			}
			if fabric != "" {
				if cmd.Flags().Changed("ranks") || cmd.Flags().Changed("topology") {
					return usageError{errors.New("lab: --fabric says how many ranks there are and how they are joined: leave out --ranks and --topology")}
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
	flags.Var(number(&cfg.PerHost, 1, 1, lab.MaxRanks), "per-host", "number of ranks that share a namespace, and its bob0")
	flags.BoolVar(&cfg.Bind, "bind", false, bindUsage)
	flags.Var(number(&cfg.MTU, 0, vipl.MinMTU, ethertype.MaxMTU), "mtu", "MTU of every bob0 in bytes; by default the largest, and 9000 with --fabric")
	flags.BoolVar(&goOn, "continue", false, continueUsage)
	flags.Var(choice(&topology, "auto", "auto", "pair", "bridge"), "topology", "how ranks are joined: pair, bridge, or auto: a pair if they are two and no link fails")
	flags.Var(fabricFile(&fabric), "fabric", "make the Myrinet that `FILE` describes: hosts are ranks; one, two and fattree are ready")
	flags.Var(listenAt(&metrics), "metrics", "serve the ranks' metrics on this `address` (:port is localhost's): an index at /, /rank/0/metrics, ..., and /targets for Prometheus")
	faultFlags(cmd, &faults)
	cutFlags(cmd, &cfg.Cuts)
	return cmd
}

// runLab makes the lab, runs the command in it and removes the lab.
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
