package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLargestMessage sends one message of MaxTransferSize bytes, 1 GiB, over a
// segment that reorders and loses some of its 16,400 frames. The short form sends 32 MiB.
func TestLargestMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: the race detector takes long and has nothing to find in a simulated world")
	}
	size := vipl.MaxTransferSize
	if !need.Full() {
		size = 32 << 20
	}
	in := &inbox{count: 1, size: size, seed: 3}
	attr := &vipl.Attributes{Reliability: reliability.ReliableDelivery}
	opts := sim.Options{Seed: 3, MTU: 65535, Bandwidth: 100e9, Loss: 0.001, Reorder: 0.01}
	err := pair(opts, attr, func(v *vipl.VI) error { return sendAll(v, 1, size, 3) }, in.post, in.receive)
	if err != nil {
		t.Fatal(err)
	}
}
