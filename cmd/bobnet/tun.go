package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/spf13/cobra"
)

const tunLong = `Join this host to an IP network whose packets travel on VIs, until interrupted: make
an interface with the addresses given, so that any program reaches the other hosts of
the segment on which this runs, by TCP, UDP or whatever it likes.

Hosts find each other by their addresses. Packets are up to 65,000 bytes long whatever
the segment's frames take, what the wire loses is sent again below IP, and the kernel's
own network on the same card goes on. The interface is gone when this ends, however that
comes. Multicast is not carried, nor are packets of other hosts passed on.

It needs CAP_NET_ADMIN, and for its frames CAP_NET_RAW, sockets of bobnet agent, or driver
udp. SIGQUIT (Ctrl-\\) prints who the neighbours are.`

func newTunCmd() *cobra.Command {
	var cfg tun.Config
	var addrs []string
	var address string
	cmd := &cobra.Command{
		Use:   "tun --addr ADDR/BITS [flags]",
		Short: "An IP interface whose packets travel on VIs, for programs that know nothing of them",
		Long:  tunLong,
		Example: "  bobnet tun --iface eth1 --addr 10.9.0.1/24 --addr fd09::1/64\n" +
			"  bobnet tun --iface eth1 --addr 10.9.0.2/24 --addr fd09::2/64   # on another host",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, a := range addrs {
				p, err := netip.ParsePrefix(a)
				if err != nil {
					return fmt.Errorf("--addr: %w: want an address and the length of its network's prefix, such as 10.9.0.1/24", err)
				}
				cfg.Addrs = append(cfg.Addrs, p)
			}
			return runTun(cmd, &cfg, address)
		},
	}
	nicFlags(cmd, &cfg.VIPL)
	f := cmd.Flags()
	f.StringArrayVar(&addrs, "addr", nil, "`address` of the interface and the length of its network's prefix, IPv4 or IPv6; may be repeated")
	f.StringVar(&cfg.Device, "dev", "", "`name` of the interface to make; by default bobnet0, bobnet1 and so on")
	f.StringVar(&cfg.Network, "network", tun.DefaultNetwork, "`name` of the network: hosts of others on the segment are none of its business")
	f.IntVar(&cfg.MTU, "mtu", tun.MaxMTU, fmt.Sprintf("longest packet in `bytes`, %d to %d", tun.MinMTU, tun.MaxMTU))
	f.StringVar(&address, "metrics", "", "serve metrics on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
	return cmd
}

// runTun serves an IP network until the command is interrupted.
func runTun(cmd *cobra.Command, cfg *tun.Config, address string) error {
	cfg.Logger = slog.Default()
	t, err := tun.Open(cfg)
	if err != nil {
		return err
	}
	c := metrics.NewCollector(nil)
	c.WatchTun(t)
	c.WatchNIC(t.NIC())
	defer c.DumpOnQuit(os.Stderr)()
	defer c.AnswerAgent()()
	if address != "" {
		server, err := metrics.Serve(address, c)
		if err != nil {
			return errors.Join(fmt.Errorf("--metrics: %w", err), t.Close())
		}
		defer server.Close()
	}
	fmt.Fprintf(cmd.OutOrStdout(), "interface %s, addresses %v, MTU %d, on network %q over %s\n", t.Device(), cfg.Addrs, cfg.MTU, cfg.Network, t.NIC().Query().Name)
	err = t.Run(cmd.Context())
	return errors.Join(err, t.Close())
}
