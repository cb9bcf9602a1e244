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

const daemonLong = `Serve the processes of this node that use package vmmc, until interrupted: match
their imports with the exports of other processes and nodes, prove whose a process
is that wants to import, and tell who has died.

A node is an interface, and has one daemon, root's as a rule: processes take no other
user's but their own. They find it by themselves if it runs before them, and do
without where none runs; then buffers that are exported to some users only can be
imported by nobody. No send passes the daemon, and its end cuts no import: start it
again at any time. When its interface is deleted it waits for one of that name.

SIGQUIT (Ctrl-\) prints which processes it knows, and whose imports wait.`

func newDaemonCmd() *cobra.Command {
	var cfg daemon.Config
	var addr string
	cmd := &cobra.Command{
		Use:   "daemon [flags]",
		Short: "Serve this node's processes of VMMC: matching, users, deaths",
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
	cmd.Flags().Var(listenAt(&addr), "metrics", "serve the daemon's metrics on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
	cmd.Flags().Var(text(&cfg.Socket, "", most(maxSocket)), "socket", "`name` of the Unix socket, which processes set in Config.Daemon; a name that begins with @ is in the abstract namespace")
	return cmd
}

// runDaemon serves until ctx is done, or the interface is gone.
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

// watchDaemon dumps the state of a daemon on SIGQUIT, tells the node's agent of it, and serves its metrics at addr if that is
// not empty, until stop is called.
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
