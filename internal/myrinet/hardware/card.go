package hardware

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

const (
	defaultPageSize = 4096
	maxSRAM         = 1 << 30
)

// Wire carries packets between a card and the network: a Port of a Fabric in virtual time, or the
// end of a live cable.
type Wire interface {
	// Send sends a packet with its CRC-8. The caller may reuse the bytes at once. It reports false
	// for a packet that is too long, and until the previous packet has left.
	Send(packet []byte) bool
	// Resume makes the wire offer again a packet for which Room reported false.
	Resume()
	// MaxPacket is the size in bytes of the longest packet.
	MaxPacket() int
}

// Card is the hardware of a network interface: memory, a processor for one Program, a DMA engine
// between host and card memory, a send engine and a receive engine. The three engines work
// concurrently. A card is the Host of its wire. Only one goroutine at a time may use it: in virtual
// time the one that drives the world; live, the one that holds the lock of the card's link.
type Card struct {
	name   string
	world  myrinet.World // nil if live
	timing timing
	wire   Wire
	prog   Program

	sram  SRAM
	dma   dmaEngine
	out   sendEngine
	in    recvEngine
	pages pages
	irq   interrupts

	busyUntil int64 // of the processor
	stepAt    int64 // time of its next step, 0 for never
	lastStep  int64
	stepping  bool
	woken     bool // an event has occurred since the last step began
	step      func()
	hostDebt  int64
	stats     CardStats
}

// NewCard returns a card without a program. world is nil for a live card. The error wraps ErrSRAM
// if the memory cannot hold a doorbell page.
func NewCard(world myrinet.World, cfg myrinet.CardConfig) (*Card, error) {
	cfg.SRAM = cmp.Or(cfg.SRAM, DefaultSRAM)
	cfg.PageSize = cmp.Or(cfg.PageSize, defaultPageSize)
	if cfg.PageSize < wordSize || cfg.SRAM < cfg.PageSize || cfg.SRAM > maxSRAM {
		return nil, fmt.Errorf("%w: card %s has %d bytes and doorbell pages of %d, it can have one page of %d bytes or more, to %d in all (CardConfig.SRAM)",
			ErrSRAM, cfg.Name, cfg.SRAM, cfg.PageSize, wordSize, maxSRAM)
	}
	if world == nil && cfg.Timing != nil {
		return nil, errors.New("myrinet: a live card runs in real time: leave out CardConfig.Timing")
	}
	c := &Card{name: cfg.Name, world: world, timing: timing{cfg.Timing}, sram: SRAM{mem: make([]byte, cfg.SRAM)}}
	c.step = c.onStep
	c.dma.init(c)
	c.out.init(c)
	c.in.init(c)
	c.irq.init(c)
	c.pages.init(c, cfg.PageSize)
	return c, nil
}

// Plug connects the card to its wire. Call it once, before Load.
func (c *Card) Plug(w Wire) error {
	if c.wire != nil {
		return fmt.Errorf("myrinet: card %s is plugged in already: it has one port", c.name)
	}
	if p, ok := w.(*myrinet.Port); ok && p.Host() != myrinet.Host(c) {
		return fmt.Errorf("myrinet: card %s cannot be plugged in at %v, which is not its own: a port is made for one card (Fabric.Host)", c.name, p)
	}
	c.wire = w
	return nil
}

// Load starts a program. It discards the state of the previous program: its memory, its posted
// buffers and the packets in them, a transfer in progress, interrupts not yet delivered, and a
// packet that is about to be sent. A packet that is already on the wire leaves; an incoming one is
// dropped (CardStats.Reloaded). Doorbell pages keep their contents, but pending rings are
// forgotten.
func (c *Card) Load(p Program) error {
	if c.wire == nil {
		return fmt.Errorf("myrinet: card %s is not plugged in: call Plug before Load", c.name)
	}
	c.unload()
	if err := p.Load(c); err != nil {
		c.unload()
		return fmt.Errorf("myrinet: card %s: %w", c.name, err)
	}
	c.prog = p
	c.notify()
	return nil
}

// unload removes the program and its state.
func (c *Card) unload() {
	c.prog = nil
	c.in.reset()
	c.out.reset()
	c.dma.reset()
	c.irq.reset()
	c.pages.reset()
	c.sram.blocks = c.pages.held()
}

// String returns the card's name.
func (c *Card) String() string { return c.name }

// SRAM returns the card's memory.
func (c *Card) SRAM() *SRAM { return &c.sram }

// MaxPacket returns the size in bytes of the longest packet on the card's wire.
func (c *Card) MaxPacket() int { return c.wire.MaxPacket() }

// Now is the time of the card's processor, in nanoseconds. Within a step it is the world's time
// plus the duration of the step so far. For a live card it is the time of the last Poll.
func (c *Card) Now() int64 {
	if c.world == nil || c.stepping {
		return max(c.busyUntil, c.lastStep)
	}
	return c.world.Now()
}

// Work charges the current step for that many processor cycles. What the program starts afterwards
// begins when they have passed.
func (c *Card) Work(cycles int) {
	c.stats.Cycles += uint64(cycles)
	c.busyUntil = c.Now() + c.timing.cycles(cycles)
}

// notify schedules a step of the program because an event has occurred.
func (c *Card) notify() {
	c.woken = true
	if !c.stepping && c.world != nil {
		c.schedule(c.world.Now())
	}
}

// schedule schedules a step at the given time, or later if the processor is busy. An earlier step
// that is scheduled stays.
func (c *Card) schedule(at int64) {
	at = max(at, c.busyUntil, c.lastStep+1, c.world.Now())
	if c.stepAt == 0 || c.stepAt > at {
		c.stepAt = at
		c.world.At(at, c.step)
	}
}

// onStep handles the event of a step.
func (c *Card) onStep() {
	if c.stepAt != c.world.Now() {
		return // an earlier step has replaced this one
	}
	c.stepAt = 0
	if next := c.run(c.world.Now()); next != transport.Forever {
		c.schedule(next)
	}
}

// run runs one step and returns when the next one is due.
func (c *Card) run(now int64) (next int64) {
	c.woken = false
	if c.prog == nil {
		return transport.Forever
	}
	c.stats.Steps++
	c.lastStep, c.stepping = now, true
	next = c.prog.Step(now)
	c.stepping = false
	if c.woken {
		return now
	}
	return next
}

// maxSteps limits the steps of one Poll, so that Poll returns whatever the program does.
const maxSteps = 256

// Poll runs the program of a live card until it has no more work. It returns when to call Poll
// again if no event occurs before; Pending reports whether one has.
func (c *Card) Poll(now int64) (next int64) {
	for range maxSteps {
		if next = c.run(now); !c.woken {
			break
		}
	}
	return next
}

// Pending reports whether an event has occurred that may give the program of a live card work, so
// that Poll should be called.
func (c *Card) Pending() bool { return c.woken }

// beginAt calls fn at the given time. If that is not in the future, or the card is live, it calls
// fn at once.
func (c *Card) beginAt(at int64, fn func()) {
	if c.world != nil && at > c.world.Now() {
		c.world.At(at, fn)
		return
	}
	fn()
}
