package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	endpointcard "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vipl"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/spf13/cobra"
)

const cardLong = `Run a card of the emulated Myrinet, at the end of a cable that is a network interface,
and serve the programs of this host. The programs find the card automatically. Each program
shares memory with the card; no other program can access this memory. Without "bobnet card", a
program owns its card and the interface exclusively.

A card runs one control program:
  plain  carries Ethernet frames, for programs that use the driver myrinet
  am2    holds the endpoints of active messages, for programs whose endpoints are on a card
         (endpoint.Config.Card; bobnet card --program am2, then kv -card, for example)
  vmmc   carries out the sends of VMMC, for programs whose processes are on a card
         (vmmc.Config.Card; bobnet card --program vmmc, then blackboard -card, for example)

The card runs until it is interrupted. Programs that use the driver myrinet continue when the card
runs again. Programs that use am2 or vmmc must open the card again. If the interface is deleted, the
card waits for a new interface of the same name, and its programs must be restarted. SIGQUIT
(Ctrl-\) prints what the card is doing.`

func newCardCmd() *cobra.Command {
	var cfg share.Config
	var address string
	var program string
	cmd := &cobra.Command{
		Use:     "card [flags]",
		Short:   "Run an emulated Myrinet card that several programs share",
		Long:    cardLong,
		Example: "  bobnet card --iface eth1\n  bobnet card --iface eth1 --program am2",
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Interface == "" {
				cfg.Interface = os.Getenv(vipl.EnvInterface)
			}
			return serveAgain(cmd.Context(), "card", &cfg.Interface, func() error {
				switch program {
				case share.AMII:
					return runServed(cmd.Context(), &cfg, address, cmd.OutOrStdout(), "endpoints", openEndpointCard)
				case share.VMMC:
					return runServed(cmd.Context(), &cfg, address, cmd.OutOrStdout(), "processes of VMMC", openVMMCCard)
				}
				return runCard(cmd.Context(), &cfg, address, cmd.OutOrStdout())
			})
		},
	}
	f := cmd.Flags()
	f.VarP(ifaceName(&cfg.Interface), "iface", "i", "`name` or MAC of the interface; by default $"+vipl.EnvInterface+", or the only one that is up")
	f.Var(choice(&program, share.Plain, share.Plain, share.AMII, share.VMMC), "program", "the card's control program: plain, am2 or vmmc")
	f.BoolVar(&cfg.AnyUser, "any-user", false, "serve programs of every user, not only of root and of the card's own")
	f.Var(listenAt(&address), "metrics", "serve the card's metrics on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
	return cmd
}

// runCard serves a card until ctx is done.
func runCard(ctx context.Context, cfg *share.Config, address string, out io.Writer) error {
	card, err := share.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer card.Close()
	c := metrics.NewCollector(nil)
	if shown, ok := transport.As[interface{ Snapshot() plain.Snapshot }](card.Link()); ok {
		c.WatchCard(shown)
	}
	stop, err := c.Instrument(address)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	defer stop()
	info := card.Link().Info()
	cfg.Interface = info.Interface
	fmt.Fprintf(out, "card %v on %s, MTU %d\n", info.MAC, info.Interface, info.MTU)
	work, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	var gone error
	watch.Go(func() { gone = closeWhenGone(work, card.Link()) })
	err = card.Run(ctx)
	cancel()
	watch.Wait()
	_, forged, unsent := card.Stats()
	fmt.Fprintf(out, "card on %s: frames dropped: %d forged, %d not taken\n", info.Interface, forged, unsent)
	if gone != nil && ctx.Err() == nil {
		return fmt.Errorf("card on %s: %w", info.Interface, gone)
	}
	return errors.Join(err, context.Cause(ctx))
}

// served is a card that programs use by its control program, and not by frames.
type served interface {
	Serve(ctx context.Context, anyUser bool) error
	MAC() ethertype.MAC
	Close() error
}

// openEndpointCard opens a card that holds endpoints.
func openEndpointCard(ctx context.Context, iface string, c *metrics.Collector) (card served, name string, err error) {
	x, err := endpointcard.Open(ctx, &endpointcard.Config{Interface: iface})
	if err != nil {
		return nil, "", err
	}
	c.WatchEndpointCard(x)
	return x, x.Snapshot().Card.Name, nil
}

// What bobnet card has room for: more than the paper's card, whose memory is enough for 4 processes.
const (
	vmmcProcesses = 32
	vmmcMemory    = 1 << 17 // pages, 512 MiB
	vmmcSRAM      = 2 << 20
)

// openVMMCCard opens a card that carries out the sends of VMMC.
func openVMMCCard(ctx context.Context, iface string, c *metrics.Collector) (card served, name string, err error) {
	x, err := vmmccard.Open(ctx, &vmmccard.Config{Interface: iface, Processes: vmmcProcesses, Memory: vmmcMemory, Card: myrinet.CardConfig{SRAM: vmmcSRAM}})
	if err != nil {
		return nil, "", err
	}
	c.WatchVMMCCard(x)
	return x, x.Snapshot().Card.Name, nil
}

// runServed serves a card until ctx is done.
func runServed(ctx context.Context, cfg *share.Config, address string, out io.Writer, what string,
	open func(ctx context.Context, iface string, c *metrics.Collector) (card served, name string, err error)) error {
	c := metrics.NewCollector(nil)
	card, name, err := open(ctx, cfg.Interface, c)
	if err != nil {
		return err
	}
	defer card.Close()
	stop, err := c.Instrument(address)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	defer stop()
	cfg.Interface = name
	fmt.Fprintf(out, "card %v on %s, for %s\n", card.MAC(), cfg.Interface, what)
	if err := card.Serve(ctx, cfg.AnyUser); err != nil {
		return fmt.Errorf("card on %s: %w", cfg.Interface, err)
	}
	return context.Cause(ctx)
}
