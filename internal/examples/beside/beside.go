// Package beside contains the code that the examples of streams share: listeners over streams and
// over TCP on one interface, and a measurement of calls.
package beside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/stream"
)

// Listeners contains a listener for streams and, if the interface has an IPv4 address, one for TCP.
type Listeners []net.Listener

// Listen listens over host under a name, and over TCP at the address of its interface.
func Listen(ctx context.Context, host *stream.Host, name string) (Listeners, error) {
	l, err := (&stream.ListenConfig{Host: host}).Listen(ctx, "bobnet://"+name)
	if err != nil {
		return nil, err
	}
	ip := addressOf(host.NIC().Query().Name)
	if ip == nil {
		return Listeners{l}, nil
	}
	tcp, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		l.Close()
		return nil, err
	}
	return Listeners{l, tcp}, nil
}

// TCP returns the address of the listener for TCP, or "" if there is none.
func (l Listeners) TCP() string {
	if len(l) < 2 {
		return ""
	}
	return l[1].Addr().String()
}

// addressOf returns the first IPv4 address of an interface, or nil if it has none.
func addressOf(name string) net.IP {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	addrs, err := iface.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			return n.IP
		}
	}
	return nil
}

// Await waits until a server with the name is on the segment.
func Await(ctx context.Context, host *stream.Host, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := host.NIC().Lookup(ctx, name)
	return err
}

// WhyAlike explains why streams gain little over TCP if only one call is in progress at a time.
const WhyAlike = `One call at a time gains little over TCP: both ends sleep between messages, and most of a call's
time is the wake-up of threads. With more concurrent calls fewer threads sleep. If streams are much
slower than TCP here, other programs use the processors: Bobnet's threads need them to answer.`

// together is the number of concurrent calls in the second part of Measure.
const together = 8

// Measure makes n calls one after another, and then n calls of which several are concurrent, and
// prints both rates. A tenth of n calls before them is not measured.
func Measure(over string, n int, call func() error) error {
	if _, err := run(max(n/10, 1), together, call); err != nil {
		return fmt.Errorf("over %s: %w", over, err)
	}
	for _, workers := range []int{1, together} {
		took, err := run(n, workers, call)
		if err != nil {
			return fmt.Errorf("over %s: %w", over, err)
		}
		fmt.Fprintf(program.Stdout, "over %s: %d calls, %d at a time: %.0f a second, %v each\n",
			over, n, workers, float64(n)/took.Seconds(), (took / time.Duration(n)).Round(10*time.Nanosecond))
	}
	return nil
}

// run makes n calls on the given number of goroutines.
func run(n, workers int, call func() error) (time.Duration, error) {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, workers)
	var group sync.WaitGroup
	start := time.Now()
	for i := range workers {
		group.Go(func() {
			for next.Add(1) <= int64(n) && !failed.Load() {
				if errs[i] = call(); errs[i] != nil {
					failed.Store(true)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(start), errors.Join(errs...)
}
