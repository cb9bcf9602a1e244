// Package simjob runs a job's ranks on a simulated segment, in one process and
// in virtual time. The tests of the examples use it.
package simjob

import (
	"context"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Run calls body as every rank of a job, from Init to Finalize. It fails t if
// a rank cannot start or end, or if the ranks block each other for ever.
func Run(t *testing.T, opts sim.Options, ranks int, body func(ctx context.Context, comm *mplite.Comm)) {
	t.Helper()
	w := sim.New(opts)
	for rank := range ranks {
		link := w.Station(fmt.Sprint("host", rank))
		w.Go(fmt.Sprint("rank", rank), func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: opts.Seed + uint64(rank) + 1})
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				return
			}
			defer nic.Close()
			comm, err := mplite.Init(t.Context(), &mplite.Config{Config: job.Config{Job: t.Name(), Rank: rank, Size: ranks, NIC: nic}})
			if err != nil {
				t.Errorf("rank %d: %v", rank, err)
				return
			}
			body(t.Context(), comm)
			if err := comm.Finalize(t.Context()); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	if err := w.Run(); err != nil {
		t.Fatalf("seed %d: %v", opts.Seed, err)
	}
}
