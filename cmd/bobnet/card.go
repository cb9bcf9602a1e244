package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const cardLong = `Be a card of the emulated Myrinet, at the end of a cable that is a network interface,
and serve the programs of this host. They find it by themselves. Each program shares memory
with the card that no other program sees. Without this verb a program has a card, and the
interface, for itself.

A card runs one control program:
  plain  carries frames, for programs with driver myrinet
  am2    holds the endpoints of active messages, for programs whose endpoints are on a card
         (endpoint.Config.Card; bobnet card --program am2, then kv -card, for example)

The card runs until it is interrupted. Programs of driver myrinet go on when there is a card
again; programs with endpoints must open the card again. When the interface is deleted, the
card waits for a new one of the same name, and its programs must start again. SIGQUIT
(Ctrl-\\) prints what the card is doing.`

func newCardCmd() *cobra.Command {
	var cfg share.Config
	var address string
	var program string
	cmd := &cobra.Command{
		Use:     "card [flags]",
		Short:   "Be a card of the emulated Myrinet that several programs use",
		Long:    cardLong,
		Example: "  bobnet card --iface eth1\n  bobnet card --iface eth1 --program am2",
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Interface == "" {
				cfg.Interface = os.Getenv(vipl.EnvInterface)
			}
			return serveAgain(cmd.Context(), "card", &cfg.Interface, func() error {
				if program == share.AMII {
					return runEndpointCard(cmd.Context(), &cfg, address, cmd.OutOrStdout())
				}
				return runCard(cmd.Context(), &cfg, address, cmd.OutOrStdout())
			})
		},
	}
	f := cmd.Flags()
	f.VarP(ifaceName(&cfg.Interface), "iface", "i", "`name` or MAC of the interface; by default $"+vipl.EnvInterface+", or the only one that is up")
	f.Var(choice(&program, share.Plain, share.Plain, share.AMII), "program", "the card's control program: plain or am2")
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

// runEndpointCard serves a card that holds endpoints until ctx is done.
func runEndpointCard(ctx context.Context, cfg *share.Config, address string, out io.Writer) error {
	card, err := lanai.Open(ctx, &lanai.Config{Interface: cfg.Interface})
	if err != nil {
		return err
	}
	defer card.Close()
	c := metrics.NewCollector(nil)
	c.WatchEndpointCard(card)
	stop, err := c.Instrument(address)
	if err != nil {
		return fmt.Errorf("--metrics: %w", err)
	}
	defer stop()
	cfg.Interface = card.Snapshot().Card.Name
	fmt.Fprintf(out, "card %v on %s, for endpoints\n", card.MAC(), cfg.Interface)
	if err := card.Serve(ctx, cfg.AnyUser); err != nil {
		return fmt.Errorf("card on %s: %w", cfg.Interface, err)
	}
	return context.Cause(ctx)
}
