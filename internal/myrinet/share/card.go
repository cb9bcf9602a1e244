package share

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/driver"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// Config configures a card to serve. Ports and Routes must not be set: the ports belong to the
// programs.
type Config struct {
	plain.OpenConfig
	AnyUser bool // admits programs of every user
}

// Card is a shared card. It is safe for concurrent use.
type Card struct {
	link   transport.Link
	memory *shm.Link
	seats  seats
	desk   *Desk
	info   transport.Info
	forged atomic.Uint64
	unsent atomic.Uint64
}

// cardPorts is the range of ports for programs.
var cardPorts = transport.PortRange{Lo: driver.BlockSize, Hi: 1<<16 - 1}

// Open opens the card at a network interface; Run serves it. The errors are those of plain.Open;
// one that wraps EADDRINUSE means that the interface already has a card or a switch.
func Open(ctx context.Context, cfg *Config) (*Card, error) {
	at, err := iface.Find(cfg.Interface)
	if err != nil {
		return nil, err
	}
	with := cfg.OpenConfig
	with.Interface, with.Ports = at.Name, cardPorts
	if with.MTU == 0 { // the shared memory holds so many frames of this size that windows need not be small
		with.MTU = at.MTU - plain.Overhead
	}
	c := new(Card)
	if c.link, err = plain.Open(ctx, &with); err != nil {
		return nil, err
	}
	c.info = c.link.Info()
	if err = c.seats.prepareDirectory(at); err == nil {
		c.memory, err = openMemory(at, c.info.EtherType, transport.PortRange{Lo: cardPort, Hi: cardPort}, cfg.AnyUser, c.seats.directory)
	}
	if err == nil {
		err = c.seats.admitAll()
	}
	if err == nil {
		c.desk, err = OpenDesk(at, cfg.AnyUser)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("share: serving the card at %s: %w", at.Name, err)
	}
	return c, nil
}

// Link returns the card's link, for its Info, Stats and the details of plain.Link.
func (c *Card) Link() transport.Link { return c.link }

// Stats returns the number of connected programs, the number of their frames that were dropped
// because they are malformed or come from a port of another program, and the number that the card
// did not accept.
func (c *Card) Stats() (programs int, forged, unsent uint64) {
	return c.desk.Programs(), c.forged.Load(), c.unsent.Load()
}

// Close stops Run and closes all programs' links.
func (c *Card) Close() error {
	if c.desk != nil {
		c.desk.Close()
	}
	if c.memory != nil {
		c.memory.Close()
	}
	return c.link.Close()
}

// Run serves programs until ctx is done or the card's cable fails permanently, and closes the card.
// The error is the cable's, or nil if ctx is done.
func (c *Card) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	failed := make(chan error, 2)
	all.Go(func() { failed <- c.handOut() })
	all.Go(func() { failed <- c.collect(work) })
	w := Welcome{Program: Plain, MTU: c.info.MTU, EtherType: uint16(c.info.EtherType), Directory: c.seats.directory}
	all.Go(func() { c.desk.Serve(work, w, c.attend) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	c.Close()
	all.Wait()
	return err
}

// attend answers a program's requests until its connection ends.
func (c *Card) attend(conn *net.UnixConn, uid uint32) {
	said := make([]byte, maxControl)
	for {
		m, err := passfd.Receive(conn, uid, said)
		passfd.Close(uid, m.FDs...)
		if err != nil || m.N == 0 || c.seats.answer(conn, uid, said[:m.N]) != nil {
			return
		}
	}
}

// handOut drives the card, and passes received frames to their programs.
func (c *Card) handOut() error {
	views := make([][]byte, transport.MaxBatch)
	heads := make([]byte, len(views)*ethertype.HeaderSize)
	batch := make([]transport.Frame, len(views))
	for {
		n, err := c.link.Recv(views)
		if err != nil {
			return err
		}
		for i, view := range views[:n] {
			port, _ := framing.Concerns(view, c.info.EtherType, c.info.MAC) // the card has checked it
			head := heads[i*ethertype.HeaderSize:][:ethertype.HeaderSize]
			envelope(head, c.info.MAC, c.info.EtherType, cardPort, port, len(view))
			batch[i] = transport.Frame{Head: head, Body: append(batch[i].Body[:0], view)}
		}
		if n > 0 {
			if _, err := c.memory.Send(batch[:n]); err != nil && !errors.Is(err, transport.ErrFrameSize) {
				return err
			}
			continue
		}
		if err := c.link.Wait(transport.Forever); err != nil && !errors.Is(err, transport.ErrLinkDown) {
			return err
		}
	}
}

// collect takes the programs' frames and makes the card send them.
func (c *Card) collect(ctx context.Context) error {
	views := make([][]byte, transport.MaxBatch)
	batch := make([]transport.Frame, 0, len(views))
	for {
		n, err := c.memory.Recv(views)
		if err != nil {
			return err
		}
		batch = batch[:0]
		for _, view := range views[:n] {
			if frame := c.admitFrame(view); frame != nil {
				batch = append(batch, transport.Frame{Head: frame})
			}
		}
		if err := c.send(ctx, batch); err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if err := c.memory.Wait(transport.Forever); err != nil {
			return err
		}
	}
}

// admitFrame returns a program's frame if the program may send it. Package shm has already copied the
// frames of programs of other users, so they cannot change after this check.
func (c *Card) admitFrame(view []byte) []byte {
	be := binary.BigEndian
	from := be.Uint16(view[framing.OffsetSrcPort:])
	frame := view[min(len(view), ethertype.HeaderSize):]
	if len(frame) < framing.OuterSize || len(frame) > c.info.MTU+ethertype.EthernetSize {
		c.forged.Add(1)
		return nil
	}
	if ethertype.MAC(frame[framing.OffsetSrc:]) != c.info.MAC || be.Uint16(frame[framing.OffsetType:]) != uint16(c.info.EtherType) ||
		driver.Block(be.Uint16(frame[framing.OffsetSrcPort:])) != driver.Block(from) {
		c.forged.Add(1)
		return nil
	}
	return frame
}

// sendPause is the interval between attempts to send to a full card.
const sendPause = 50 * time.Microsecond

// send makes the card send frames, and waits while the card is full.
func (c *Card) send(ctx context.Context, frames []transport.Frame) error {
	for len(frames) > 0 {
		n, err := c.link.Send(frames)
		frames = frames[n:]
		switch {
		case errors.Is(err, transport.ErrClosed):
			return err
		case err != nil && len(frames) > 0:
			c.unsent.Add(1)
			frames = frames[1:]
		case len(frames) > 0:
			if unix.Nanosleep(&unix.Timespec{Nsec: int64(sendPause)}, nil); ctx.Err() != nil {
				return nil
			}
		}
	}
	return nil
}
