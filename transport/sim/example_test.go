package sim_test

import (
	"fmt"
	"log"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// A sender of five frames, and a receiver that prints which have come, and when: the
// seed decides what is lost, and each run is the same.
func Example() {
	world := sim.New(sim.Options{Seed: 5, Loss: 0.3, Delay: 5 * time.Microsecond})
	a, b := world.Station("a"), world.Station("b")
	world.Go("sender", func() {
		for i := range 5 {
			h := ethertype.Header{Dst: b.Info().MAC, Src: a.Info().MAC, Type: a.Info().EtherType, Kind: ethertype.KindEcho, Seq: ethertype.Seq(i)}
			frame := make([]byte, ethertype.HeaderSize)
			h.Put(frame)
			ethertype.Seal(frame)
			if _, err := a.Send([]transport.Frame{{Head: frame}}); err != nil {
				log.Fatal(err)
			}
			world.Sleep(time.Millisecond)
		}
	})
	world.Go("receiver", func() {
		views := make([][]byte, transport.MaxBatch)
		for end := b.Now() + int64(time.Second); b.Now() < end; {
			if err := b.Wait(end); err != nil {
				log.Fatal(err)
			}
			n, err := b.Recv(views)
			if err != nil {
				log.Fatal(err)
			}
			for _, view := range views[:n] {
				var h ethertype.Header
				if _, err := h.Parse(view); err != nil {
					log.Fatal(err)
				}
				fmt.Printf("%d at %v\n", h.Seq, time.Duration(b.Now()-sim.Start))
			}
		}
	})
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0 at 5µs
	// 2 at 2.005ms
	// 3 at 3.005ms
}
