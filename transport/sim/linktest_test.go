package sim_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/transport/sim"
)

func TestLink(t *testing.T) {
	for name, opts := range map[string]sim.Options{
		"default": {},
		"slow":    {Bandwidth: 1e8, Jitter: 100 * time.Microsecond, TxSlots: 20, RxSlots: 64},
		"jumbo":   {Bandwidth: 1e11, MTU: 9000},
		"long":    {Long: sim.LongWhole},
	} {
		t.Run(name, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Pair {
				w := sim.New(opts)
				return linktest.Pair{A: w.Station("a"), B: w.Station("b")}
			})
		})
	}
	t.Run("another EtherType", func(t *testing.T) {
		linktest.Run(t, func(t *testing.T) linktest.Pair {
			w := sim.New(sim.Options{})
			return linktest.Pair{A: w.StationWith(sim.StationOptions{EtherType: 0x88b6}), B: w.StationWith(sim.StationOptions{EtherType: 0x88b6})}
		})
	})
}
