package lanai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// maxCards is the maximum number of cards that a card communicates with, including itself.
const maxCards = 256

// Config configures a card and its control program. A zero field means the default, which is the
// paper's value.
type Config struct {
	// Interface is the name or MAC address of the network interface that is the end of the cable;
	// "" means the only interface that is up. Open uses it.
	Interface string
	// Cable has the options of a live cable.
	Cable myrinet.LiveOptions
	// MAC is the address of the card. On a live cable, zero means the interface's address. In
	// virtual time MAC must be set.
	MAC ethertype.MAC
	// Card describes the card: SRAM, pages and timing.
	Card myrinet.CardConfig
	// Routes lead to the other cards. Nil means what a direct cable needs, a route of no turns to
	// every card, until the mapper finds others.
	Routes []myrinet.HostRoute
	// Mapper makes the card discover the other cards, at the start and continuously. This package
	// sets its ID and Card. Nil means no mapper in virtual time. On a live cable, nil means a
	// mapper with defaults if Routes is nil.
	Mapper *myrinet.MapperOptions
	// Logger is the mapper's logger if Mapper.Logger is nil; nil means slog.Default(). The handler
	// may block; vipl.Config.Logger describes when it is called.
	Logger *slog.Logger

	Frames      int             // endpoint frames, including the driver's; 0 means 8
	Endpoints   int             // endpoints, resident or not, of all programs; 0 means 256
	Attempts    int             // attempts to send in an endpoint's turn; 0 means 2^8 (VNT, 4.1)
	Channels    channels.Config // channels between two cards; the card sets Cards and Owners
	Residence   time.Duration   // minimum time that an endpoint keeps its frame while others wait for one; 0 means twice Channels.Timeout
	SendersStay int             // multiple of Residence for which an endpoint keeps its frame while it has messages to send; 0 means 4
	Pinned      int             // bytes of pinned staging areas, in addition to those of resident endpoints; 0 means 16 MiB

	// Suspend makes a program wait before it writes a message to an endpoint outside the card's
	// frames, until that endpoint is in a frame. The paper's programs do so (VNT, 5.4). By default
	// the host keeps the message until then.
	Suspend bool

	// The fields of GAM remove what the paper adds to it (VNT, 5.1).
	Unreliable  bool // no channels: the card assumes that the network loses no packet, and a packet without room in an endpoint waits in the network
	Unprotected bool // no tags
	Unnamed     bool // no virtual networks: a card has one endpoint, so packets need no private header, and the host's messages name neither endpoints nor tags
	Pipelined   bool // fetches a message from the host while the previous one is being sent

	Spin  bool  // waiting programs poll continuously and need no interrupt
	Costs Costs // costs in virtual time
	Seed  uint64
}

// Costs are the costs of the control program's steps, in cycles of the card's processor. They apply
// in virtual time, if Card.Timing is set.
type Costs struct {
	Send     int // finding a message and building its packet
	Header   int // the share of the private header in Send, and in Receive
	Bind     int // binding the message to a channel
	Resend   int // retransmitting a message
	Loiter   int // an attempt that finds no message while other endpoints wait; with 0 a turn ends at its first such attempt
	Receive  int // examining a received packet
	Arrive   int // looking up the channel of the packet
	Check    int // checking the tag of the packet
	Answer   int // building an ACK or NACK
	Answered int // handling an ACK or NACK
}

// Defaults of Config.
const (
	defaultFrames    = 8
	defaultEndpoints = 256
	defaultAttempts  = 1 << 8
	defaultPinned    = 16 << 20
	defaultStay      = 4
)

// headed returns the cost of a step that builds or parses a private header.
func (c *Config) headed(cycles int) int {
	if c.Unnamed {
		return cycles - c.Costs.Header
	}
	return cycles
}

// resolve fills in the defaults of a card of active messages and checks the configuration.
func (c *Config) resolve() error {
	fill := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	fill(&c.Frames, defaultFrames)
	fill(&c.Endpoints, defaultEndpoints)
	fill(&c.SendersStay, defaultStay)
	fill(&c.Attempts, defaultAttempts)
	fill(&c.Pinned, defaultPinned)
	c.Channels.Cards, c.Channels.Owners = maxCards, c.Endpoints
	if err := c.Channels.Validate(); err != nil {
		return fmt.Errorf("lanai: Config.Channels: %w", err)
	}
	if c.Residence == 0 {
		c.Residence = 2 * time.Duration(c.Channels.Resolve().Timeout)
	}
	if c.Routes == nil {
		c.Routes = station.Straight
	}
	switch {
	case c.MAC == ethertype.MAC{} || c.MAC.IsGroup():
		return fmt.Errorf("lanai: invalid card address %v (set Config.MAC to a unicast address)", c.MAC)
	case c.Frames < 2 || c.Frames > 64:
		return fmt.Errorf("lanai: Config.Frames is %d: want 2 to 64, one of which is privileged", c.Frames)
	case c.Endpoints < 1 || c.Endpoints > 1<<16:
		return fmt.Errorf("lanai: Config.Endpoints is %d: want 1 to %d", c.Endpoints, 1<<16)
	case c.Attempts < 1 || c.Residence < 0 || c.SendersStay < 0 || c.Pinned < 0:
		return fmt.Errorf("lanai: Attempts %d, Residence %v, SendersStay %d, Pinned %d: want 1 attempt at least, and nothing negative", c.Attempts, c.Residence, c.SendersStay, c.Pinned)
	}
	return nil
}

// Card is an emulated card that runs AM-II's control program, with the driver on its host.
// Goroutines may share it.
type Card struct {
	host   station.Host // its engine's lock guards the whole card
	cfg    Config
	prog   program
	driver driver
	clock  *clock // nil live
	rng    *rand.Rand
	closed bool

	endpoints *admission.Gate[uint32] // seats of programs of other processes, by user; nil if none are served
}

// loadProgram loads the program on a card that is connected to the cable.
func (c *Card) loadProgram() error {
	c.rng = rand.New(rand.NewPCG(c.cfg.Seed, uint64(c.Now())))
	if c.cfg.Seed == 0 {
		c.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	p, d := &c.prog, &c.driver
	*p = program{d: d, cfg: &c.cfg, self: c.cfg.MAC, frames: make([]frame, c.cfg.Frames)}
	*d = driver{prog: p, host: &c.host, clock: c.clock, cfg: &c.cfg, by: map[uint64]*end{}, programs: map[uint16]*seat{}, alarm: transport.Forever, askAt: transport.Forever,
		queries: queries{has: admission.New[ethertype.MAC](admission.Limits{Conns: mostHas / 4, AllConns: mostHas})},
		replies: admission.New[ethertype.MAC](admission.Limits{Conns: stationReplies, AllConns: mostReplies})}
	for i := range p.frames {
		page, err := c.host.Card.OpenPage(fmt.Sprintf("frame %d", i))
		if err != nil {
			return err
		}
		if n := len(page.Bytes()); n < frameSize {
			return fmt.Errorf("lanai: the card has pages of %d bytes, a frame needs %d (CardConfig.PageSize)", n, frameSize)
		}
		p.frames[i].page = page
	}
	p.sends.Init(&c.cfg.Channels, c.random())
	p.recvs.Init(&c.cfg.Channels, c.random())
	d.control, _ = d.createEndpoint(0, 0, nil) // the first endpoint
	d.control.staging.make()
	d.control.staging.pinned = true
	d.control.tag = wire.TagAll
	p.frames[0].state, p.frames[0].end = frameLive, d.control
	d.control.state, d.control.frame, d.control.wantsDone = endResident, &p.frames[0], true
	if c.cfg.Mapper != nil {
		if err := p.maps.Start(c.Now(), c.host.Logged(c.cfg.Mapper, c.cfg.Logger), c.cfg.MAC, p); err != nil {
			return err
		}
	}
	c.host.Card.OnInterrupt(d.interrupted)
	if err := c.host.Card.Load(p); err != nil {
		return err
	}
	return p.peers.Set(c.cfg.Routes)
}

// random returns a nonzero number.
func (c *Card) random() uint32 { return c.rng.Uint32() | 1 }

// Now returns the card's time, in nanoseconds.
func (c *Card) Now() int64 { return c.host.Now() }

// WithTimeout returns a copy of ctx that ends after d on the card's clock, or when cancel is
// called.
func (c *Card) WithTimeout(ctx context.Context, d time.Duration) (timed context.Context, cancel context.CancelFunc) {
	return c.host.Engine.WithTimeout(ctx, d)
}

// MAC returns the card's address.
func (c *Card) MAC() ethertype.MAC { return c.cfg.MAC }

// SetRoutes replaces the card's routes, until a mapper replaces them. Messages in flight to cards
// that lose their route return to their senders.
func (c *Card) SetRoutes(routes []myrinet.HostRoute) error {
	if c.driver.far != nil {
		return errors.New("lanai: set routes: another process serves the card (set the routes there)")
	}
	c.lock()
	defer c.unlock()
	err := c.prog.peers.Set(routes)
	if err == nil {
		c.prog.refuseRoutes()
		c.driver.kick()
	}
	return err
}

// failure returns why the card can no longer be used, or nil. The caller must hold the lock.
func (c *Card) failure() error {
	if c.closed {
		return transport.ErrClosed
	}
	return c.host.Failed()
}

// Close closes the card. Close the nodes first: programs that still use the card get errors, and
// their peers can only detect that the card is silent.
func (c *Card) Close() error {
	c.lock()
	if c.closed {
		c.unlock()
		return nil
	}
	c.sendAll(&c.host.Engine)
	c.closed = true
	c.host.Close()
	return nil
}

// closeTime is the maximum time that Close waits until the last control messages are acknowledged.
const closeTime = 250 * time.Millisecond

// sendAll waits up to closeTime until the last control messages are acknowledged. In virtual time it returns at
// once, because the card sends them without a waiting goroutine.
func (c *Card) sendAll(e *progress.Engine) {
	if e.Virtual() {
		return
	}
	ctx, cancel := e.WithTimeout(context.Background(), closeTime)
	defer cancel()
	w := e.Begin(ctx)
	defer e.End(&w)
	var never progress.Gate
	for c.driver.speaks() && e.Wait(&w, &never) == nil {
		c.driver.readControl()
	}
}
