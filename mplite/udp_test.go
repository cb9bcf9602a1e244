package mplite_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestUDP reduces vectors over three ranks on the loopback, which takes no
// privilege.
func TestUDP(t *testing.T) {
	const size = 3
	errs := make([]error, size)
	var ranks sync.WaitGroup
	for rank := range size {
		ranks.Go(func() { errs[rank] = udpRank(t, rank, size) })
	}
	ranks.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func udpRank(t *testing.T, rank, size int) error {
	nic, err := vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(41 + rank), Driver: "udp"})
	if err != nil {
		return err
	}
	defer nic.Close()
	c, err := mplite.Init(t.Context(), &mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: size, NIC: nic}})
	if err != nil {
		return err
	}
	for _, n := range []int{1, 1000, 200_000} {
		send, recv := make([]int64, n), make([]int64, n)
		for i := range send {
			send[i] = int64(i * (rank + 1))
		}
		if err := mplite.Allreduce(t.Context(), c, send, recv, mplite.Sum[int64]()); err != nil {
			return err
		}
		for i, got := range recv {
			if want := int64(i * size * (size + 1) / 2); got != want {
				return fmt.Errorf("of %d elements, element %d is %d, want %d", n, i, got, want)
			}
		}
	}
	return c.Finalize(t.Context())
}
