package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/spf13/cobra"
)

const daemonLong = `Serve the processes of this node that use package vmmc, until interrupted. The
daemon matches their imports with the exports of other processes and nodes,
authenticates the user of an importing process, and reports dead processes.

A node is one interface, and has one daemon. Root usually runs the daemon: a process uses
a daemon only if root or the process's own user runs it. Processes that start after the
daemon find it automatically. Processes also work without a daemon, but then no process
can import a buffer that is exported to certain users only. Sends do not pass through the
daemon, and restarting it does not interrupt existing imports. If its interface is
deleted, the daemon waits for a new one of the same name.

SIGQUIT (Ctrl-\) prints the known processes and the pending imports.`

func newDaemonCmd() *cobra.Command {
	var cfg daemon.Config
	var addr string
	cmd := &cobra.Command{
		Use:   "daemon [flags]",
		Short: "Run the VMMC daemon for this node",
		Long:  daemonLong,
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Logger = slog.Default()
			return serveAgain(cmd.Context(), "daemon", &cfg.VIPL.Interface, func() error {
				return runDaemon(cmd.Context(), &cfg, addr, cmd.OutOrStdout())
			})
		},
	}
	nicFlags(cmd, &cfg.VIPL)
	cmd.Flags().Var(listenAt(&addr), "metrics", "serve the daemon's metrics on this `address` (:port means localhost): /metrics, and readable status at /debug/bobnet")
	cmd.Flags().Var(text(&cfg.Socket, "", most(maxSocket)), "socket", "`name` of the Unix socket, as in the processes' Config.Daemon; @ starts a name in the abstract namespace")
	return cmd
}

// runDaemon serves until ctx is done or the interface is deleted.
func runDaemon(ctx context.Context, cfg *daemon.Config, addr string, out io.Writer) error {
	d, err := daemon.Open(ctx, cfg)
	if err != nil {
		return err
	}
	stop, err := watchDaemon(d, addr)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	defer stop()
	cfg.VIPL.Interface = d.NIC().Query().Name
	fmt.Fprintf(out, "daemon of node %v on %s, at socket %s\n", d.NIC().Addr().MAC, d.NIC().Query().Name, d.Socket())
	return errors.Join(d.Run(ctx), context.Cause(ctx))
}

// watchDaemon dumps the state of a daemon on SIGQUIT and reports it to the node's agent. If addr is
// not empty, it also serves the metrics there. stop ends all of this.
func watchDaemon(d *daemon.Daemon, addr string) (stop func(), err error) {
	collector := metrics.NewCollector(nil)
	collector.WatchDaemon(d)
	collector.WatchNIC(d.NIC())
	dumps, answers := collector.DumpOnQuit(os.Stderr), collector.AnswerAgent()
	stop = func() {
		answers()
		dumps()
	}
	if addr == "" {
		return stop, nil
	}
	server, err := metrics.Serve(addr, collector)
	if err != nil {
		stop()
		return nil, err
	}
	slog.Info("serving metrics", "at", fmt.Sprintf("http://%s/metrics", server.Addr()))
	quiet := stop
	return func() {
		server.Close()
		quiet()
	}, nil
}
