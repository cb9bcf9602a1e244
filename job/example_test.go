package job_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bobnet-go/bobnet/job"
)

// A program of its own ports joins the job that the environment describes, and works
// until a rank fails or it is done.
func ExampleOpen() {
	ctx := context.Background()
	port := uint32(7) // where this rank listens for its own connections
	m, err := job.Open(ctx, nil, job.Program{Name: "Halo", Version: 1, Params: [2]uint32{port}})
	if err != nil {
		log.Fatal(err) // says which ranks are missing, or which failed and why
	}
	me := m.Identity()
	for rank := range me.Size {
		if rank != me.Rank {
			fmt.Printf("rank %d is at %v, port %d\n", rank, m.Addr(rank).MAC, m.Params(rank)[0])
		}
	}
	if err := m.Err(); errors.Is(err, job.ErrRankFailed) {
		m.Fail(err)
		log.Fatal(err)
	}
	if err := m.Leave(ctx); err != nil {
		log.Fatal(err)
	}
}
