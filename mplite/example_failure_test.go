package mplite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Tags of the messages between rank 0, which has the tasks, and the workers.
const (
	tagTask = iota // the number of a task
	tagDone        // the same, when it is done
	tagStop        // there are no more tasks
)

// A work queue that survives the death of a worker. Rank 0 gives the other ranks tasks,
// acknowledges that rank 2 has died, and gives its task to another one. Finalize of the
// living succeeds. On a real network the program is started by
// bobnet run --continue -n 4, or bobnet lab --continue -n 4.
func ExampleComm_AckFailed() {
	const ranks = 4
	world := sim.New(sim.Options{Seed: 1})
	for rank := range ranks {
		station := world.Station(fmt.Sprint("host", rank))
		world.Go(fmt.Sprint("rank", rank), func() {
			nic, err := vipl.Open(context.Background(), &vipl.Config{Link: station, Seed: uint64(rank) + 1})
			if err != nil {
				log.Fatal(err)
			}
			defer nic.Close()
			ctx := context.Background()
			comm, err := mplite.Init(ctx, &mplite.Config{Config: job.Config{Job: "queue", Rank: rank, Size: ranks, NIC: nic, PeerTimeout: time.Second}})
			if err != nil {
				log.Fatal(err)
			}
			if rank == 0 {
				err = giveTasks(ctx, comm, 9)
			} else {
				err = work(ctx, comm, func() bool {
					if rank == 2 {
						world.Kill(station)
					}
					return rank == 2
				})
			}
			if errors.Is(err, errDied) {
				return
			}
			comm.AckFailed() // else Finalize returns the error of a rank that has died
			if err := errors.Join(err, comm.Finalize(ctx)); err != nil {
				log.Fatal(err)
			}
		})
	}
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rank 2 has died
	// 9 tasks are done
}

// giveTasks has n tasks done by the living ranks.
func giveTasks(ctx context.Context, comm *mplite.Comm, n int) error {
	var pending []int
	for task := range n {
		pending = append(pending, task)
	}
	idle, busy := []int{1, 2, 3}, map[int]int{} // busy: the task of each rank
	for done := 0; done < n; {
		for len(pending) > 0 && len(idle) > 0 {
			rank, task := idle[0], pending[0]
			idle, pending = idle[1:], pending[1:]
			busy[rank] = task
			mplite.Send(ctx, comm, []int{task}, rank, tagTask) // if it fails, the next receive does, too
		}
		task := make([]int, 1)
		st, err := mplite.Recv(ctx, comm, task, mplite.AnySource, tagDone)
		switch {
		case errors.Is(err, mplite.ErrRankFailed):
			for _, dead := range comm.AckFailed() {
				fmt.Printf("rank %d has died\n", dead)
				idle = slices.DeleteFunc(idle, func(rank int) bool { return rank == dead })
				if task, had := busy[dead]; had {
					pending = append(pending, task)
					delete(busy, dead)
				}
			}
		case err != nil:
			return err
		default:
			done++
			delete(busy, st.Source)
			idle = append(idle, st.Source)
		}
	}
	fmt.Println(n, "tasks are done")
	for _, rank := range idle {
		if err := comm.Send(ctx, nil, rank, tagStop); err != nil {
			return err
		}
	}
	return nil
}

var errDied = errors.New("this rank has died")

// work does the tasks that rank 0 gives this rank.
func work(ctx context.Context, comm *mplite.Comm, dies func() bool) error {
	for {
		task := make([]int, 1)
		st, err := mplite.Recv(ctx, comm, task, 0, mplite.AnyTag)
		switch {
		case err != nil:
			return err
		case st.Tag == tagStop:
			return nil
		case dies():
			return errDied
		}
		if err := mplite.Send(ctx, comm, task, 0, tagDone); err != nil {
			return err
		}
	}
}
