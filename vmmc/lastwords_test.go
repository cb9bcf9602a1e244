package vmmc_test

import (
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestLastWords: what a process has posted before it was closed is in the exporter's memory, and
// its handler has run for each message, although the network loses some of them, and although
// they are more than there is room for at once. vmmc/lanai has the same for cards.
func TestLastWords(t *testing.T) {
	const messages = 40
	seeds(t, 10, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.02})
		w.process(1, vmmc.Config{}, func(p *vmmc.Process) error {
			heard := 0
			_, err := p.Export(make([]byte, messages*8), 1, vmmc.Everybody, func(vmmc.Notification) { heard++ })
			if err != nil {
				return err
			}
			ctx, cancel := p.NIC().WithTimeout(bg, 10*time.Second)
			defer cancel()
			return p.Await(ctx, func() bool { return heard == messages })
		})
		w.process(2, vmmc.Config{}, func(p *vmmc.Process) error {
			to, err := p.Import(bg, vmmc.Name{Process: 1, ID: 1})
			for i := 0; err == nil && i < messages; i++ {
				err = p.Post(&vmmc.Send{Src: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Dst: to.Addr() + vmmc.ProxyAddr(i*8), Notify: true})
			}
			p.Close()
			return err
		})
		return w.run()
	})
}
