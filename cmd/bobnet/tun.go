package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const tunLong = `Join this host to an IP network whose packets travel on VIs, until interrupted: make
an interface with the addresses given, so that any program reaches the other hosts of
the segment on which this runs, by TCP, UDP or whatever it likes.

Hosts find each other by their addresses. Packets are up to 65,000 bytes long whatever
the segment's frames take, what the wire loses is sent again below IP, and the kernel's
own network on the same card goes on. The interface is gone when this ends, however that
comes. Multicast is not carried, nor are packets of other hosts passed on.

When the interface that carries the packets is deleted this one goes, too, and comes back
when there is one of that name again.

It logs neighbours that come and go. Packets to an address that no host has are answered by
ICMP's "host unreachable" after 3 s.

It needs CAP_NET_ADMIN, and for its frames CAP_NET_RAW, sockets of bobnet agent, or driver
udp. SIGQUIT (Ctrl-\\) prints who the neighbours are.`

func newTunCmd() *cobra.Command {
	var cfg tun.Config
	var address, frames string
	cmd := &cobra.Command{
		Use:   "tun --addr ADDR/BITS [flags]",
		Short: "An IP interface whose packets travel on VIs, for programs that know nothing of them",
		Long:  tunLong,
		Example: "  bobnet tun --iface eth1 --addr 10.9.0.1/24 --addr fd09::1/64\n" +
			"  bobnet tun --iface eth1 --addr 10.9.0.2/24 --addr fd09::2/64   # on another host",
		Args: usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTun(cmd, &cfg, address, frames)
		},
	}
	nicFlags(cmd, &cfg.VIPL)
	f := cmd.Flags()
	f.Var(prefixes(&cfg.Addrs), "addr", "`address` of the interface and the length of its network's prefix, IPv4 or IPv6; may be repeated")
	f.Var(text(&cfg.Device, "", deviceName), "dev", "`name` of the interface to make; by default bobnet0, bobnet1 and so on")
	f.Var(text(&cfg.Network, tun.DefaultNetwork, most(tun.MaxNetwork), slashless), "network", "`name` of the network: hosts of others on the segment are none of its business")
	f.Var(number(&cfg.MTU, tun.MaxMTU, tun.MinMTU, tun.MaxMTU), "mtu", "longest packet in `bytes`")
	f.Var(output(&frames, ""), "pcap", "write the frames that carry the packets to `FILE`, which Wireshark opens")
	f.Var(listenAt(&address), "metrics", "serve metrics on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
	return cmd
}

// prefixes is a flag whose values are addresses, each with the length of its network's prefix.
func prefixes(to *[]netip.Prefix) *settings[netip.Prefix] {
	parse := func(text string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return p, errors.New("want an address and the length of its network's prefix, such as 10.9.0.1/24")
		}
		return p, nil
	}
	return &settings[netip.Prefix]{to: to, kind: "stringArray", parse: parse, print: netip.Prefix.String}
}

func slashless(name string) error {
	if strings.Contains(name, "/") {
		return errors.New("want a name without a slash")
	}
	return nil
}

// deviceName refuses what no interface can be called.
func deviceName(name string) error {
	if len(name) >= unix.IFNAMSIZ || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n%") {
		return fmt.Errorf("want a name that an interface can have: 1 to %d bytes without spaces, slashes and colons", unix.IFNAMSIZ-1)
	}
	return nil
}

// runTun serves an IP network until the command is interrupted, and writes the segment's frames
// to the file called frames if that is not empty.
func runTun(cmd *cobra.Command, cfg *tun.Config, address, frames string) error {
	cfg.Logger = slog.Default()
	if !cfg.Logger.Enabled(cmd.Context(), slog.LevelInfo) { // neighbours that come and go
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	file, wrap, err := capture(frames)
	if err != nil {
		return err
	}
	cfg.VIPL.Wrap = wrap
	err = serveAgain(cmd.Context(), "tun", &cfg.VIPL.Interface, func() error { return serveTun(cmd, cfg, address) })
	return errors.Join(err, file.Close())
}

// list writes values with commas between them.
func list[T fmt.Stringer](values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// serveTun is runTun until the interface that carries the packets is gone.
func serveTun(cmd *cobra.Command, cfg *tun.Config, address string) error {
	t, err := tun.Open(cmd.Context(), cfg)
	if errors.Is(err, tun.ErrConfig) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	cfg.VIPL.Interface = t.NIC().Query().Name
	c := metrics.NewCollector(nil)
	c.WatchTun(t)
	c.WatchNIC(t.NIC())
	stop, err := c.Instrument(address)
	if err != nil {
		return errors.Join(fmt.Errorf("--metrics: %w", err), t.Close())
	}
	defer stop()
	fmt.Fprintf(cmd.OutOrStdout(), "interface %s, addresses %s, MTU %d, on network %q over %s\n", t.Device(), list(cfg.Addrs), cfg.MTU, cfg.Network, t.NIC().Query().Name)
	err = t.Run(cmd.Context())
	return errors.Join(err, t.Close())
}
