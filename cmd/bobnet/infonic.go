package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// printNIC opens a NIC on the interface that Bobnet would use and prints what
// it has picked, and why. That it cannot be opened is a finding like others.
func printNIC(ctx context.Context, w io.Writer, cfg vipl.Config) error {
	cfg.NoService = true
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		fmt.Fprintf(w, "no NIC can be opened: %v\n", err)
		return nil
	}
	defer nic.Close()
	info := seam.Link(nic).Info()
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"NIC", nic.Addr().String()},
		{"driver", driver(info.Driver)},
		{"ports", fmt.Sprintf("%d to %d: the first block that no process on %s has", info.Ports.Lo, info.Ports.Hi, info.Interface)},
		{"frames", fmt.Sprintf("up to %d bytes of data, as the MTU of %d allows", info.MTU-ethertype.BaseSize, info.MTU)},
		{"receive queue", fmt.Sprintf("%d frames", info.Slots)},
		{"long frames", long(seam.Link(nic))},
		{"this host", thisHost(seam.Link(nic))},
	} {
		fmt.Fprintf(table, "%s\t%s\n", row[0], row[1])
	}
	return table.Flush()
}

// driver says what the parts of a driver's name mean.
func driver(name string) string {
	parts := strings.Split(name, "+")
	has := func(part string) bool { return slices.Contains(parts, part) }
	var why []string
	if has("fault") {
		why = append(why, "faults on purpose, as "+vipl.EnvFault+" says")
	}
	if has("seal") {
		why = append(why, "frames to other hosts are sealed under a key")
	}
	if has("ring") {
		why = append(why, "mapped AF_PACKET receive ring, batched sends: the default")
		switch {
		case has("agent"):
			why = append(why, "its sockets are from the agent at "+agent.Path())
		case has("xdp"):
			why = append(why, "frames up to 4096 bytes leave through AF_XDP, as far as it was measured to be faster just now")
		default:
			why = append(why, "no AF_XDP: not to be had, or measured not to be faster just now")
		}
	}
	if has("udp") {
		why = append(why, "UDP datagrams, without any privilege and through routers")
	}
	if has("packet") {
		why = append(why, "a plain packet socket, a system call a frame")
	}
	if has("shm") {
		why = append(why, "shared memory, this host only")
	}
	if has("myrinet") {
		why = append(why, "the card of an emulated Myrinet, at one end of a cable")
	}
	if has("host") {
		why = append(why, "other programs of this host are reached beside the interface")
	}
	return name + ": " + strings.Join(why, "; ")
}

func long(link transport.Link) string {
	if l, ok := link.(transport.LongLink); ok && !l.Info().Unprotected && l.StartLong() {
		return fmt.Sprintf("up to an MTU of %d, to stations that only veth lies between", optional.LongMTU(link))
	}
	return "none"
}

func thisHost(link transport.Link) string {
	if l, ok := link.(optional.Local); ok {
		return fmt.Sprintf("through shared memory, frames up to an MTU of %d", l.LocalMTU())
	}
	return "cannot be reached: an interface hands no frames back"
}
