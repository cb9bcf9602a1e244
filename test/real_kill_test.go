package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/mplite"
	"golang.org/x/sys/unix"
)

// killed is the rank that gets SIGKILL, and killedTag what it waits for.
const (
	killed    = 2
	killedTag = 7
)

// doingEnv names what ranks do when one of them is killed.
const doingEnv = "BOBNET_TEST_DOING"

// doings are what ranks do: each calls ready when it is in the middle of it
// and ends with the error that ends it.
var doings = map[string]func(ctx context.Context, c *mplite.Comm, ready func()) error{
	"Exchange":   doExchange,
	"Receive":    doReceive,
	"ReceiveAny": doReceiveAny,
	"Rendezvous": doRendezvous,
	"Barrier":    doBarrier,
}

// TestKilledRank: after kill -9 of one rank of four, the operations of each
// other one end with an error that names it, whatever they were doing.
func TestKilledRank(t *testing.T) {
	needLab(t)
	jobs := map[string][]*player{}
	for name := range doings { // all first, because the survivors take a time-out to notice
		jobs[name] = playKill(t, name)
	}
	for name, ranks := range jobs {
		t.Run(name, func(t *testing.T) {
			for _, p := range ranks {
				if p.Rank() == killed {
					continue
				}
				if line, want := p.line(t), fmt.Sprintf("rank %d failed", killed); line != want {
					<-p.Done()
					t.Errorf("rank %d says %q, want %q; in full: %s", p.Rank(), line, want, &p.stderr)
				}
				p.end(t)
			}
		})
	}
}

// playKill starts four ranks and kills one when all are at it.
func playKill(t *testing.T, doing string) []*player {
	t.Helper()
	ranks := play(t, newLab(t, lab.Config{N: 4}), "kill", doingEnv+"="+doing)
	for _, p := range ranks {
		if line := p.line(t); line != "ready" {
			t.Fatalf("%s: rank %d says %q", doing, p.Rank(), line)
		}
	}
	if err := ranks[killed].Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return ranks
}

// killRole is a rank of TestKilledRank.
func killRole(ctx context.Context) error {
	cfg := config()
	cfg.PeerTimeout = 2 * time.Second
	comm, err := mplite.Init(cfg)
	if err != nil {
		return err
	}
	if err := comm.Barrier(ctx); err != nil {
		return err
	}
	err = doings[os.Getenv(doingEnv)](ctx, comm, func() { fmt.Println("ready") })
	var dead *mplite.RankError
	if !errors.As(err, &dead) {
		return fmt.Errorf("ended with %v, which names no rank", err)
	}
	fmt.Printf("rank %d failed\n", dead.Rank)
	fmt.Fprintln(os.Stderr, err)
	if err := comm.Finalize(ctx); !errors.As(err, &dead) || dead.Rank != killed {
		return fmt.Errorf("Finalize returned %v, want that rank %d failed", err, killed)
	}
	return nil
}

// doExchange is the traffic of a simulation: edges, small and large, to the
// neighbours in a grid, and a sum over all ranks.
func doExchange(ctx context.Context, c *mplite.Comm, ready func()) error {
	grid, err := c.CartCreate(ctx, []int{2, 2}, []bool{true, true}, false)
	if err != nil {
		return err
	}
	var out, in [1 << 15]float64
	for step := 0; ; step++ {
		if step == 50 {
			ready()
		}
		n := 100
		if step%8 == 0 {
			n = len(out) // 256 KiB, a rendezvous
		}
		for dim := range 2 {
			for _, disp := range []int{-1, 1} {
				src, dst, err := grid.Shift(dim, disp)
				if err != nil {
					return err
				}
				if _, err := mplite.Sendrecv(ctx, grid.Comm, out[:n], dst, dim, in[:n], src, dim); err != nil {
					return err
				}
			}
		}
		if err := mplite.Allreduce(ctx, grid.Comm, nil, out[:1], mplite.Sum[float64]()); err != nil {
			return err
		}
	}
}

// wait waits for a request that has been started.
func wait(ctx context.Context, r *mplite.Request, err error, ready func()) error {
	if err != nil {
		return err
	}
	ready()
	_, err = r.Wait(ctx)
	return err
}

// doReceive: all wait for the rank that will be killed, and it for another.
// Nothing is under way.
func doReceive(ctx context.Context, c *mplite.Comm, ready func()) error {
	src := killed
	if c.Rank() == killed {
		src = 0
	}
	r, err := c.Irecv(make([]byte, 1), src, killedTag)
	return wait(ctx, r, err, ready)
}

// doReceiveAny: all wait for a message from anybody.
func doReceiveAny(ctx context.Context, c *mplite.Comm, ready func()) error {
	r, err := c.Irecv(make([]byte, 1), mplite.AnySource, killedTag)
	return wait(ctx, r, err, ready)
}

// doRendezvous: all have announced a large message to the rank that will be
// killed; it does not take any.
func doRendezvous(ctx context.Context, c *mplite.Comm, ready func()) error {
	if c.Rank() == killed {
		return doReceive(ctx, c, ready)
	}
	r, err := c.Isend(make([]byte, 1<<20), killed, killedTag+1)
	return wait(ctx, r, err, ready)
}

// doBarrier: all but one have entered a barrier.
func doBarrier(ctx context.Context, c *mplite.Comm, ready func()) error {
	ready()
	if c.Rank() == killed {
		return doReceive(ctx, c, func() {})
	}
	return c.Barrier(ctx)
}
