package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

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
again at any time.`

func newDaemonCmd() *cobra.Command {
	var cfg daemon.Config
	cmd := &cobra.Command{
		Use:   "daemon [flags]",
		Short: "Serve this node's processes of VMMC: matching, users, deaths",
		Long:  daemonLong,
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Logger = slog.Default()
			d, err := daemon.Open(&cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "daemon of node %v on %s, at socket %s\n", d.NIC().Addr().MAC, d.NIC().Query().Name, d.Socket())
			return errors.Join(d.Run(cmd.Context()), context.Cause(cmd.Context()))
		},
	}
	nicFlags(cmd, &cfg.VIPL)
	cmd.Flags().StringVar(&cfg.Socket, "socket", "", "`name` of the Unix socket for processes that are told it (Config.Daemon); one that begins with @ is in the abstract name space")
	return cmd
}
