package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/spf13/cobra"
)

const pingLong = `Send echo frames to an open NIC and print the round-trip times. Every Bobnet program
answers on the interfaces that it has open; bobnet ping --listen does nothing else.

The target is an address (MAC/port), a MAC address for any program on that interface,
or a name that a program has advertised. The exit code is 1 if no echo was answered.`

const pingExample = `  bobnet ping --listen             # on one machine, and on another:
  bobnet ping -c 5 ping/HOSTNAME
  bobnet lab -n 2 -- sh -c 'if [ $BOBNET_RANK = 0 ]; then timeout 5 bobnet ping --listen; else bobnet ping -c 3 02:62:6f:62:00:01; fi'`

// minEcho is the shortest payload of an echo in bytes: its sequence number.
const minEcho = 8

// surelyFits is the largest payload in bytes that fits into a frame of any interface with a NIC.
const surelyFits = vipl.MinMTU - ethertype.BaseSize

// pingCall is a call of `bobnet ping`.
type pingCall struct {
	count    int
	interval time.Duration
	timeout  time.Duration
	size     int
	nic      vipl.Config
	listen   bool
	name     string
	pcap     string
}

func newPingCmd() *cobra.Command {
	var call pingCall
	cmd := &cobra.Command{
		Use:     "ping [flags] ADDR | --listen",
		Short:   "Measure round trips to a Bobnet program on the segment",
		Long:    pingLong,
		Example: pingExample,
		Args: usage(func(cmd *cobra.Command, args []string) error {
			if call.listen {
				return noArgs(cmd, args)
			}
			if len(args) == 1 {
				return perf.CheckTarget(args[0])
			}
			if len(args) > 1 {
				return fmt.Errorf("ping: want one address or name, found %d", len(args))
			}
			return errors.New("ping: missing address or name of the target, or --listen")
		}),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := call.check(cmd); err != nil {
				return usageError{err}
			}
			file, wrap, err := capture(call.pcap)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, file.Close()) }()
			call.nic.Wrap = wrap
			nic, err := vipl.Open(cmd.Context(), &call.nic)
			if err != nil {
				return err
			}
			defer nic.Close()
			watch, done, err := watchFor("")
			if err != nil {
				return err
			}
			defer done()
			defer watch(perf.Opened{NIC: nic})()
			if call.listen {
				return call.serve(cmd.Context(), nic, cmd.OutOrStdout())
			}
			return call.ping(cmd.Context(), nic, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.VarP(number(&call.count, 0, 0, maxCount), "count", "c", "stop after `N` echoes; 0 continues until interrupted")
	f.Var(period(&call.interval, time.Second, 0, 24*time.Hour), "interval", "time between echoes")
	f.VarP(period(&call.timeout, time.Second, time.Microsecond, time.Hour), "timeout", "W", "maximum time for an answer")
	f.VarP(number(&call.size, 56, minEcho, ethertype.MaxMTU-ethertype.BaseSize), "size", "s", "payload in `bytes`")
	nicFlags(cmd, &call.nic)
	f.BoolVar(&call.listen, "listen", false, "answer echoes instead of sending them")
	f.Var(output(&call.pcap, ""), "pcap", "write the frames to `FILE` for Wireshark")
	f.Var(text(&call.name, "", most(vipl.MaxName)), "name", "name that --listen advertises (default ping/ and the host's name)")
	return cmd
}

// check rejects flags of the other mode.
func (c *pingCall) check(cmd *cobra.Command) error {
	mode, without := "an address", []string{"name"}
	if c.listen {
		mode, without = "--listen", []string{"count", "interval", "timeout", "size"}
	}
	for _, name := range without {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("ping: --%s has no meaning with %s", name, mode)
		}
	}
	return nil
}

// serve advertises the name and waits until ctx is done. The NIC itself answers the echoes.
func (c *pingCall) serve(ctx context.Context, nic *vipl.NIC, out io.Writer) error {
	if c.name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("ping: read the host name: %w", err)
		}
		c.name = "ping/" + host
	}
	if err := nic.Advertise(c.name, nic.Addr()); err != nil {
		return err
	}
	fmt.Fprintf(out, "answering at %v, name %s, on %s\n", nic.Addr(), c.name, nic.Query().Name)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-nic.Ended():
		return fmt.Errorf("ping: stopped answering: %w", nic.Cause())
	}
}

// ping sends echoes, and prints the answers and a summary, until the count is reached or an
// interrupt arrives.
func (c *pingCall) ping(ctx context.Context, nic *vipl.NIC, target string, out io.Writer) error {
	to, err := pingTarget(ctx, nic, target)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "PING %s (%v) from %v on %s: %d bytes\n", target, to, nic.Addr(), nic.Query().Name, c.size)
	var stats pingStats
	for seq := 1; c.count == 0 || seq <= c.count; seq++ {
		next := time.Now().Add(c.interval)
		rtt, err := c.echo(ctx, nic, to)
		if ctx.Err() != nil {
			stats.cut = true
			break
		}
		if err != nil && !errors.Is(err, vipl.ErrTimeout) {
			return err
		}
		stats.record(rtt, err == nil)
		if err != nil {
			fmt.Fprintf(out, "seq=%d no answer within %v%s\n", seq, c.timeout, after(": ", nic.Obstacle()))
		} else {
			fmt.Fprintf(out, "%d bytes from %v: seq=%d time=%s us\n", c.size, to, seq, micros(float64(rtt)))
		}
		if seq != c.count && !waitUntil(ctx, next) {
			break
		}
	}
	fmt.Fprintf(out, "--- %s ---\n%v\n", target, &stats)
	if stats.answered == 0 {
		return c.unanswered(nic, to)
	}
	return nil
}

// after returns separator and text, or "" if text is empty.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// unanswered returns the error for a target that answered no echo. If the local interface cannot
// carry frames, the error says so. Otherwise it gives hints about the target.
func (c *pingCall) unanswered(nic *vipl.NIC, to ethertype.Addr) error {
	if obstacle := nic.Obstacle(); obstacle != "" {
		return fmt.Errorf("ping: no answer from %v: %s", to, obstacle)
	}
	hint := ""
	if c.size > surelyFits {
		hint = " or is the MTU of the path too small? try without -s"
	}
	return fmt.Errorf("ping: no answer from %v (is a Bobnet program running there, on this segment, with the same EtherType and key?%s)", to, hint)
}

func (c *pingCall) echo(ctx context.Context, nic *vipl.NIC, to ethertype.Addr) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return nic.Echo(ctx, to, c.size)
}

// pingTarget turns what the user typed into an address.
func pingTarget(ctx context.Context, nic *vipl.NIC, text string) (ethertype.Addr, error) {
	if mac, err := ethertype.ParseMAC(text); err == nil {
		return ethertype.Addr{MAC: mac, Port: ethertype.PortAll}, nil
	}
	return perf.Resolve(ctx, nic, text)
}

// waitUntil waits for t. It reports false if ctx is done before.
func waitUntil(ctx context.Context, t time.Time) bool {
	select {
	case <-time.After(time.Until(t)):
		return true
	case <-ctx.Done():
		return false
	}
}

// pingStats sums up echoes.
type pingStats struct {
	sent, answered  int
	cut             bool    // an interrupt arrived while one more echo was in flight
	lo, hi          float64 // ns
	sum, sumSquares float64
}

func (s *pingStats) record(rtt time.Duration, ok bool) {
	s.sent++
	if !ok {
		return
	}
	ns := float64(rtt)
	if s.answered == 0 {
		s.lo, s.hi = ns, ns
	}
	s.answered++
	s.lo, s.hi = min(s.lo, ns), max(s.hi, ns)
	s.sum += ns
	s.sumSquares += ns * ns
}

// String returns a summary like that of ping(8), in microseconds.
func (s *pingStats) String() string {
	text := fmt.Sprintf("%d sent, %d answered", s.sent, s.answered)
	if s.sent > 0 {
		text += fmt.Sprintf(", %.0f%% lost", 100*float64(s.sent-s.answered)/float64(s.sent))
	}
	if s.cut {
		text += ", one in flight when interrupted"
	}
	if s.answered == 0 {
		return text
	}
	mean := s.sum / float64(s.answered)
	mdev := math.Sqrt(max(s.sumSquares/float64(s.answered)-mean*mean, 0))
	return fmt.Sprintf("%s\nround trip min/avg/max/mdev = %s/%s/%s/%s us", text, micros(s.lo), micros(mean), micros(s.hi), micros(mdev))
}

// micros prints nanoseconds as microseconds.
func micros(ns float64) string { return fmt.Sprintf("%.1f", ns/1000) }
