package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/spf13/cobra"
)

const agentLong = `Open packet sockets for the programs of this node that lack CAP_NET_RAW, until
interrupted. A program of a user or group that the policy lets in gets sockets whose filter
is locked to ports of its own, and the kernel (nftables) drops what it sends by them from
other ports, addresses or interfaces. Users and groups that are not in /etc/passwd or
/etc/group, such as those of LDAP, are given by number: group:1234. Programs find the agent
by themselves, at
` + agent.DefaultPath + ` or where $` + agent.EnvPath + ` says.

No frame passes the agent. Its end changes nothing for programs that run: the sockets are
theirs, and they connect to the next agent by themselves. docs/security.md says what a
program can do with such sockets, and what it cannot.

--metrics ADDR serves the metrics and the dumps of all programs of this node that tell the
agent, as all that are part of Bobnet do, with its sockets or with their own, if the policy
lets their user in; SIGQUIT (Ctrl-\) prints the dumps.
It takes CAP_NET_RAW and CAP_NET_ADMIN, and Linux 5.16.`

// maxBlocks is the most that --blocks takes: more than all interfaces of a host have.
const maxBlocks = 1 << 16

func newAgentCmd() *cobra.Command {
	var cfg nodeagent.Config
	var allow, policy, addr, types string
	cmd := &cobra.Command{
		Use:   "agent --allow user:NAME,group:NAME [flags]",
		Short: "Open packet sockets for programs of this node without CAP_NET_RAW",
		Long:  agentLong,
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (allow == "") == (policy == "") {
				return usageError{errors.New("say who gets sockets, either by --allow user:NAME,group:NAME or by --policy FILE")}
			}
			cfg.Policy = func() (nodeagent.Policy, error) { return nodeagent.ReadPolicy(policy) }
			if policy != "" {
				if _, err := nodeagent.ReadPolicy(policy); err != nil {
					return usageError{err}
				}
			}
			if allow != "" {
				who, err := nodeagent.ParsePolicy(allow)
				if err != nil {
					return usageError{err}
				}
				cfg.Policy = func() (nodeagent.Policy, error) { return who, nil }
			}
			var err error
			if cfg.EtherTypes, err = nodeagent.ParseEtherTypes(types); err != nil {
				return usageError{err}
			}
			cfg.Logger = slog.Default()
			return runAgent(cmd, cfg, addr)
		},
	}
	f := cmd.Flags()
	f.Var(text(&allow, "", func(who string) error { _, err := nodeagent.ParsePolicy(who); return bare(err, "node agent: ") }), "allow", "`who` gets sockets, besides root: user:NAME and group:NAME with commas between them, or all")
	f.Var(input(&policy), "policy", "`file` with such entries, which is read for each request")
	f.Var(text(&cfg.Path, agent.DefaultPath, most(maxSocket)), "socket", "`path` of the Unix socket")
	f.Var(interfaces(&cfg.Interfaces), "interfaces", "`names` of the interfaces to serve, with commas between them; by default all")
	f.Var(text(&types, fmt.Sprintf("%#04x", uint16(ethertype.Default)), func(list string) error { _, err := nodeagent.ParseEtherTypes(list); return bare(err, "node agent: ") }), "ethertypes", "`numbers` of the EtherTypes that programs may use, with commas between them; those of IP and the like are refused")
	f.Var(number(&cfg.MaxBlocks, nodeagent.DefaultMaxBlocks, 1, maxBlocks), "blocks", "`number` of blocks of 1024 ports that a user may have, one for each NIC")
	f.BoolVar(&cfg.Unguarded, "unguarded", false, "do not let the kernel judge what programs send: they may send anything, have long frames, and each frame costs less")
	f.Var(listenAt(&addr), "metrics", "serve the metrics of all programs that tell the agent on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
	return cmd
}

// runAgent serves until the command is interrupted.
func runAgent(cmd *cobra.Command, cfg nodeagent.Config, addr string) error {
	server, err := nodeagent.Listen(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	if addr != "" {
		web, err := metrics.ServeHandler(addr, agentHandler(server))
		if err != nil {
			return err
		}
		defer web.Close()
		slog.Info("serving metrics", "at", fmt.Sprintf("http://%s/metrics", web.Addr()))
	}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	defer signal.Stop(quit)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() {
		for {
			select {
			case <-quit:
				writeAgentDump(os.Stderr, server)
			case <-ctx.Done():
				return
			}
		}
	}()
	fmt.Fprintf(cmd.OutOrStdout(), "agent at %s\n", cfg.Path)
	return errors.Join(server.Serve(ctx), context.Cause(cmd.Context()))
}
