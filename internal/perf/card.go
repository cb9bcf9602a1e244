package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	endpointcard "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/vipl"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"golang.org/x/sys/unix"
)

// The links of am2, vmmc and vrpc that are cards of an emulated Myrinet, whose cable is the
// measured interface.
const (
	linkCard   = "card"        // each half has a card, which runs in its process
	linkShared = "card-shared" // each half uses a card that another process serves (bobnet card)
)

// OnCard reports whether a link of a plan is a card.
func OnCard(link string) bool { return link == linkCard || link == linkShared }

// controlPrograms are the control programs of the stacks that run on cards.
var controlPrograms = map[string]string{"am2": share.AMII, "vmmc": share.VMMC, "vrpc": share.VMMC}

// impossible reports whether a case is of a card and its stack does not run on cards. A program
// on a card polls for a short time before it blocks, except that vmmc.Process.Spin never blocks on a
// card of this process. So a card is listed with one way to wait, as spinning. Calls by
// the kernel's transports have no link.
func (c Case) impossible() bool {
	return OnCard(c.Link) && (controlPrograms[c.Stack] == "" || c.Wait != Spin)
}

// base is what am2, vmmc and vrpc run on: a NIC, or a card of the stack.
type base struct {
	nic       *vipl.NIC
	endpoints *endpointcard.Card
	sends     *vmmccard.Card
	server    *server // serves the card
}

// server is a process that serves a card.
type server struct {
	*exec.Cmd
	ended chan error // of capacity 1
}

// end ends the process, and waits until it has ended.
func (s *server) end() {
	s.Process.Signal(unix.SIGTERM)
	<-s.ended
}

// openBase opens what a case runs on.
func (h *Half) openBase(ctx context.Context, c Case) (b *base, err error) {
	b = &base{}
	if !OnCard(c.Link) {
		if b.nic, err = h.openNIC(ctx, c); err != nil {
			return nil, err
		}
		return b, nil
	}
	control := controlPrograms[c.Stack]
	if c.Link == linkShared {
		b.server, err = h.serveCard(ctx, control)
	}
	switch {
	case err != nil:
	case control == share.AMII:
		b.endpoints, err = endpointcard.Open(ctx, &endpointcard.Config{Interface: h.Interface})
	default:
		b.sends, err = vmmccard.Open(ctx, &vmmccard.Config{Interface: h.Interface})
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// serveCard starts the process that serves a card at the half's interface, and waits until programs
// can use the card.
func (h *Half) serveCard(ctx context.Context, control string) (*server, error) {
	if len(h.Card) == 0 {
		return nil, errors.New("perf: this process cannot serve a card (measure the link " + linkShared + " by bobnet perf)")
	}
	at, err := iface.Find(h.Interface)
	if err != nil {
		return nil, err
	}
	s := &server{exec.Command(h.Card[0], append(h.Card[1:len(h.Card):len(h.Card)], "--iface", h.Interface, "--program", control)...), make(chan error, 1)}
	s.Stderr = os.Stderr
	if err := s.Start(); err != nil {
		return nil, fmt.Errorf("perf: serve a card: %w", err)
	}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		s.ended <- s.Wait()
		stop()
	}()
	if err = share.Await(alive, at); err != nil {
		s.end()
		return nil, fmt.Errorf("perf: serve a card: %w", err)
	}
	return s, nil
}

// Close closes it, and ends the process that serves the card.
func (b *base) Close() (err error) {
	switch {
	case b.nic != nil:
		err = b.nic.Close()
	case b.endpoints != nil:
		err = b.endpoints.Close()
	case b.sends != nil:
		err = b.sends.Close()
	}
	if b.server != nil {
		b.server.end()
	}
	return err
}

// explain adds the state of a card in this process to the error of opening a connection.
func (b *base) explain(err error) error {
	if b.sends == nil {
		return err
	}
	s := b.sends.Snapshot()
	if s.Served || s.Cable == nil || s.Mapper == nil {
		return err
	}
	return fmt.Errorf("%w (this card: other end of the cable found: %t; maps: %d; routes to stations: %d)", err, s.Cable.Up, s.Mapper.Stats.Maps, s.Stations)
}

// address returns a text that is unique to it.
func (b *base) address() string {
	if b.nic != nil {
		return b.nic.Addr().String()
	}
	return ethertype.Addr{MAC: b.sends.MAC()}.String()
}

// Now returns its time, in nanoseconds.
func (b *base) Now() int64 {
	if b.nic != nil {
		return b.nic.Now()
	}
	return driver.Now()
}

// memory returns memory for buffers or a segment. It belongs to the NIC if there is one.
func (b *base) memory(n int) ([]byte, error) {
	if b.nic == nil {
		return make([]byte, n), nil
	}
	mem, _, err := b.nic.AllocMem(n, nil)
	return mem, err
}

// counters returns the counts of the NIC, or of a card that this process runs. For a card of
// another process they are 0.
func (b *base) counters() Counters {
	switch {
	case b.nic != nil:
		return nicCounters(b.nic)
	case b.endpoints != nil:
		return Counters{Retransmits: b.endpoints.Snapshot().Stats.Again}
	}
	return Counters{Retransmits: b.sends.Snapshot().Sent.Again}
}
