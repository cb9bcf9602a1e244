package vmmc_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestSpinSleeps: under virtual time a process that spins sleeps while a message of many
// frames is on its way. If it did not, the time would stand still.
func TestSpinSleeps(t *testing.T) {
	const size = 1 << 20
	w := newWorld(sim.Options{Seed: 1})
	w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
		buf := make([]byte, size)
		if _, err := p.Export(buf, 1, vmmc.Everybody, nil); err != nil {
			return err
		}
		if got, err := p.Spin(bg, vmmc.Word(buf, size-vmmc.WordSize), 0); err != nil || got == 0 {
			return fmt.Errorf("the last word is %d: %w", got, err)
		}
		return nil
	})
	w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
		i, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
		if err != nil {
			return err
		}
		return p.SendMsg(bg, pattern(make([]byte, size), 1), i.Addr())
	})
	check(t, w.run())
}
