package mplite_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestRanksOnOneHost: four ranks on one interface of one host find each other,
// and run everything, through shared memory.
func TestRanksOnOneHost(t *testing.T) {
	p := vethtest.New(t, 1500)
	const size = 4
	var ranks sync.WaitGroup
	errs := make([]error, size)
	for rank := range size {
		var nic *vipl.NIC
		if err := p.In(0, func() (err error) {
			nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		ranks.Go(func() {
			errs[rank] = hostRank(&mplite.Config{Config: job.Config{Job: runOf(t), Rank: rank, Size: size, NIC: nic}})
		})
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func hostRank(cfg *mplite.Config) error {
	c, err := mplite.Init(bg, cfg)
	if err != nil {
		return err
	}
	for _, check := range checks {
		for _, n := range []int{1, 3000, 200_000} {
			if err := check.run(c, n); err != nil {
				return fmt.Errorf("%s of %d: %w", check.name, n, err)
			}
		}
	}
	return c.Finalize(bg)
}
