// Command pingpong bounces a message between two programs over a virtual interface and prints
// percentiles of the one-way latency.
//
//	go run ./cmd/bobnet lab -n 2 -- go run ./examples/pingpong -size 64
//
// Or by hand, on two machines of one Ethernet segment (as root, or with cap_net_raw):
//
//	BOBNET_RANK=1 pingpong &    # on one
//	BOBNET_RANK=0 pingpong      # on the other
//
// Rank 1 is the server: it listens and advertises its address under a name. Rank 0 is the client:
// it looks up the name on the segment. Other ranks do nothing.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
)

var (
	count = flag.Int("n", 100_000, "round trips to measure")
	size  = flag.Int("size", 64, "bytes in a message")
	addr  = program.MetricsFlag()
)

var about = program.About{
	Name: "pingpong",
	Does: `Pingpong bounces a message between two programs over a virtual interface and prints
percentiles of the one-way time.`,
	Ranks: 2,
	Args:  "-size 64",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *size < 1 || *size > vipl.MaxTransferSize || *count < 1 {
		return fmt.Errorf("-size %d, -n %d: want sizes in 1..%d and at least one round trip", *size, *count, vipl.MaxTransferSize)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
	if err != nil || at.Rank > 1 {
		return err
	}
	nic, err := vipl.Open(ctx, &vipl.Config{Interface: os.Getenv("BOBNET_IFACE")})
	if err != nil {
		return err
	}
	defer nic.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(nic)
	stop, err := collector.Instrument(*addr)
	if err != nil {
		return err
	}
	defer stop()
	end, err := newEnd(nic)
	if err != nil {
		return err
	}
	name := "pingpong/" + at.Name
	if at.Rank == 0 {
		return client(ctx, nic, end, name)
	}
	return server(ctx, nic, end, name)
}

// end is one side of the connection: a VI, a descriptor to send with and two to receive with, so
// that one is posted whenever a message may arrive.
type end struct {
	vi   *vipl.VI
	send *vipl.Descriptor
}

func newEnd(nic *vipl.NIC) (*end, error) {
	buf, mem, err := nic.AllocMem(3**size, nil)
	if err != nil {
		return nil, err
	}
	part := func(i int) *vipl.Descriptor {
		return &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf[i**size : (i+1)**size], Handle: mem}}}
	}
	vi, err := nic.CreateVI(nil, nil, nil)
	if err != nil {
		return nil, err
	}
	for i := 1; i <= 2; i++ {
		if err := vi.PostRecv(part(i)); err != nil {
			return nil, err
		}
	}
	return &end{vi: vi, send: part(0)}, nil
}

// ping sends a message and returns when the peer's interface has it.
func (e *end) ping(ctx context.Context) error {
	if err := e.vi.PostSend(e.send); err != nil {
		return err
	}
	_, err := e.vi.SendWait(ctx)
	return e.because(err)
}

// pong receives a message and posts its descriptor again.
func (e *end) pong(ctx context.Context) error {
	d, err := e.vi.RecvWait(ctx)
	if err != nil {
		return e.because(err)
	}
	return e.vi.PostRecv(d)
}

// because returns the cause of the connection's end, if there is one, instead of the error of a
// descriptor.
func (e *end) because(err error) error {
	if err != nil {
		return cmp.Or(e.vi.Err(), err)
	}
	return nil
}

func client(ctx context.Context, nic *vipl.NIC, e *end, name string) error {
	addr, err := nic.Lookup(ctx, name)
	if err != nil {
		return err
	}
	if err := e.vi.Connect(ctx, addr, nil); err != nil {
		return err
	}
	warm := min(*count, 1000)
	times := make([]time.Duration, 0, *count)
	for i := range warm + *count {
		start := nic.Now()
		if err := e.ping(ctx); err != nil {
			return err
		}
		if err := e.pong(ctx); err != nil {
			return err
		}
		if i >= warm {
			times = append(times, time.Duration(nic.Now()-start)/2)
		}
	}
	slices.Sort(times)
	fmt.Fprintf(program.Stdout, "%d bytes to %v, one way:", *size, addr)
	for _, p := range []float64{0, 50, 90, 99, 99.9} {
		fmt.Fprintf(program.Stdout, "  p%v %v", p, times[int(p/100*float64(len(times)-1))])
	}
	fmt.Fprintln(program.Stdout)
	return nil
}

func server(ctx context.Context, nic *vipl.NIC, e *end, name string) error {
	listener, err := nic.Listen(0)
	if err != nil {
		return err
	}
	if err := nic.Advertise(name, listener.Addr()); err != nil {
		return err
	}
	request, err := listener.Wait(ctx)
	if err != nil {
		return err
	}
	if err := request.Accept(ctx, e.vi); err != nil {
		return err
	}
	for range min(*count, 1000) + *count {
		if err := e.pong(ctx); err != nil {
			return err
		}
		if err := e.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}
