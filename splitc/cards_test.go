package splitc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/splitc/internal/layertest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestCards: a program whose active messages go over cards of an emulated Myrinet, those of
// shm between its hosts. Layers that have none refuse a card.
func TestCards(t *testing.T) {
	for _, layer := range []string{"am", "shm", "rdma"} {
		p := newProgram(4, sim.Options{}, splitc.Config{Layer: layer})
		cards, err := layertest.Cards(p.World, p.cfg.Size)
		check(t, err)
		for rank, card := range cards {
			p.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
				cfg := p.cfg
				cfg.NIC, cfg.Rank, cfg.Card = nic, rank, card
				w, err := splitc.Start(bg, &cfg)
				if layer == "rdma" && errors.Is(err, splitc.ErrArgument) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := primitives(w); err != nil {
					w.Fail(err)
					return err
				}
				return w.Exit(bg)
			})
		}
		if err := p.run(); err != nil {
			t.Errorf("layer %s: %v", layer, err)
		}
		if layer != "rdma" && cards[0].Snapshot().Stats.Sent == 0 {
			t.Errorf("layer %s: the card has sent nothing", layer)
		}
	}
}
