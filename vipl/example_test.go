package vipl_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Two programs on one segment, which is simulated here and loses every tenth
// frame. A program on Ethernet names an interface in vipl.Config, not a link.
func Example() {
	world := sim.New(sim.Options{Seed: 1, Loss: 0.1})
	greeter, visitor := world.Station("greeter"), world.Station("visitor")
	world.Go("greeter", func() {
		if err := stayHome(context.Background(), greeter); err != nil {
			log.Fatal(err)
		}
	})
	world.Go("visitor", func() {
		if err := visit(context.Background(), visitor, "hello", "over Ethernet"); err != nil {
			log.Fatal(err)
		}
	})
	if err := world.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// "hello"
	// "over Ethernet"
}

// stayHome waits for a visitor and prints what it says, until it leaves.
func stayHome(ctx context.Context, link transport.Link) error {
	nic, vi, d, err := openIdle(link, 1)
	if err != nil {
		return err
	}
	defer nic.Close()
	listener, err := nic.Listen(0)
	if err != nil {
		return err
	}
	if err := errors.Join(nic.Advertise("greeter", listener.Addr()), vi.PostRecv(d)); err != nil {
		return err
	}
	request, err := listener.Wait(ctx)
	if err != nil {
		return err
	}
	if err := request.Accept(ctx, vi); err != nil {
		return err
	}
	for {
		if _, err := vi.RecvWait(ctx); errors.Is(vi.Err(), vipl.ErrDisconnected) {
			return nil
		} else if err != nil {
			return err
		}
		fmt.Printf("%q\n", d.Segs[0].Data[:d.Length])
		if err := vi.PostRecv(d); err != nil {
			return err
		}
	}
}

// visit finds the greeter, says the words, and leaves.
func visit(ctx context.Context, link transport.Link, words ...string) error {
	nic, vi, d, err := openIdle(link, 2)
	if err != nil {
		return err
	}
	defer nic.Close()
	to, err := nic.Lookup(ctx, "greeter")
	if err != nil {
		return err
	}
	if err := vi.Connect(ctx, to, nil); err != nil {
		return err
	}
	buf := d.Segs[0].Data
	for _, word := range words {
		d.Segs[0].Data = buf[:copy(buf, word)]
		if err := vi.PostSend(d); err != nil {
			return err
		}
		if _, err := vi.SendWait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openIdle opens a NIC and makes a VI, and a descriptor of memory that the NIC may use.
func openIdle(link transport.Link, seed uint64) (*vipl.NIC, *vipl.VI, *vipl.Descriptor, error) {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: link, Seed: seed})
	if err != nil {
		return nil, nil, nil, err
	}
	buf, mem, memErr := nic.AllocMem(4096, nil)
	vi, err := nic.CreateVI(nil, nil, nil)
	if err := errors.Join(memErr, err); err != nil {
		return nil, nil, nil, errors.Join(err, nic.Close())
	}
	return nic, vi, &vipl.Descriptor{Segs: []vipl.Segment{{Data: buf, Handle: mem}}}, nil
}
