package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const cardLong = `Be a card of the emulated Myrinet, at the end of a cable that is a network interface,
and serve the programs of this host that want to use it: those with driver myrinet and
this interface find it by themselves. Each shares memory with the card that no other
program sees. Without this verb a program has a card, and the interface, for itself.

It runs until it is interrupted. Programs whose card ends say so, and go on when there
is one again. When the interface is deleted the card waits for one of its name; programs
that used it must start again. SIGQUIT (Ctrl-\\) prints what the card is doing.`

func newCardCmd() *cobra.Command {
	var cfg share.Config
	var address string
	cmd := &cobra.Command{
		Use:     "card [flags]",
		Short:   "Be a card of the emulated Myrinet that several programs use",
		Long:    cardLong,
		Example: "  bobnet card --iface eth1",
		Args:    usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Interface == "" {
				cfg.Interface = os.Getenv(vipl.EnvInterface)
			}
			return serveAgain(cmd.Context(), "card", &cfg.Interface, func() error {
				return runCard(cmd.Context(), &cfg, address, cmd.OutOrStdout())
			})
		},
	}
	f := cmd.Flags()
	f.VarP(ifaceName(&cfg.Interface), "iface", "i", "`name` or MAC of the interface; by default $"+vipl.EnvInterface+", or the only one that is up")
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
	watch.Go(func() { closeWhenGone(work, card.Link()) })
	err = card.Run(ctx)
	cancel()
	watch.Wait()
	_, forged, unsent := card.Stats()
	fmt.Fprintf(out, "card on %s: frames dropped: %d forged, %d not taken\n", info.Interface, forged, unsent)
	if errors.Is(err, transport.ErrClosed) && ctx.Err() == nil {
		return fmt.Errorf("card on %s: %w", info.Interface, transport.ErrGone)
	}
	return errors.Join(err, context.Cause(ctx))
}
