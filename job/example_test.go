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
func ExampleJoin() {
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

// Two ranks of a job judge each other by what they say of themselves.
func Example() {
	me := job.Identity{Job: "halo", Rank: 1, Size: 2, Program: "Halo", Version: 1}
	var request [job.HelloSize]byte
	hello := me.Hello([2]uint32{})
	hello.Put(request[:]) // the private data of a request for a connection

	root := job.Identity{Job: "halo", Rank: 0, Size: 2, Nonce: job.NewNonce(), Program: "Halo", Version: 1}
	heard := root.ParseHello(request[:])
	fmt.Println("looks for", me.Address(0))
	fmt.Println("rank", heard.Rank, "is of the job:", root.Check(&heard) == nil)
	heard.Size = 3
	fmt.Println(root.Check(&heard))
	// Output:
	// looks for job/halo/0
	// rank 1 is of the job: true
	// job "halo" has 3 ranks according to rank 1 and 2 according to rank 0: start all ranks with the same BOBNET_SIZE
}
