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

// Wire is what a card is plugged into: a Port of a Fabric, in virtual time, or the end of
// a live cable.
type Wire interface {
	// Send takes a packet with its CRC-8, the bytes of which are the caller's again at
	// once. It reports false for one that is too long, and while the one before has not
	// left.
	Send(packet []byte) bool
	// Resume has a packet that found no room ask again.
	Resume()
	// MaxPacket is the most octets that a packet may have.
	MaxPacket() int
}

// Card is the hardware of a network interface: memory, a processor for one Program, an
// engine for transfers between host and memory, one that sends and one that receives. All
// three engines work side by side. A card is the Host of its wire, and may be used by one
// goroutine at a time: in virtual time, whoever drives the world; live, whoever holds the
// lock of the link that the card carries.
type Card struct {
	name   string
	world  myrinet.World // nil live
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
	stepAt    int64 // when its next step comes, 0 for never
	lastStep  int64
	stepping  bool
	woken     bool // something has happened since the last step began
	step      func()
	hostDebt  int64
	stats     CardStats
}

// NewCard returns a card without a program. world is nil for a live one. Its error wraps
// ErrSRAM when the memory cannot hold a doorbell page.
func NewCard(world myrinet.World, cfg myrinet.CardConfig) (*Card, error) {
	cfg.SRAM = cmp.Or(cfg.SRAM, DefaultSRAM)
	cfg.PageSize = cmp.Or(cfg.PageSize, defaultPageSize)
	if cfg.PageSize < wordSize || cfg.SRAM < cfg.PageSize || cfg.SRAM > maxSRAM {
		return nil, fmt.Errorf("%w: card %s has %d octets and doorbell pages of %d, it can have one page of %d octets or more, to %d in all (CardConfig.SRAM)",
			ErrSRAM, cfg.Name, cfg.SRAM, cfg.PageSize, wordSize, maxSRAM)
	}
	if world == nil && cfg.Timing != nil {
		return nil, errors.New("myrinet: a live card has no timing model, its time passes by itself: leave out CardConfig.Timing")
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

// Plug connects the card. It comes before Load, once.
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

// Load starts a program. All that the one before has is gone: its memory, the buffers
// that it has posted and the packets in them, a transfer between host and memory that is
// under way, interrupts that the host has not heard of, a packet that is about to be
// sent. One that is on the wire already leaves; one that is coming in is dropped
// (CardStats.Reloaded). Doorbell pages stay, with what is in them, but nobody has rung.
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

// unload forgets the program and all that is its own.
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

// SRAM is the card's memory.
func (c *Card) SRAM() *SRAM { return &c.sram }

// MaxPacket returns the most octets that a packet on the card's wire may have.
func (c *Card) MaxPacket() int { return c.wire.MaxPacket() }

// Now is the time of the card's processor: within a step, that of the world and what the
// step has taken so far. A live card's is that of its last Poll.
func (c *Card) Now() int64 {
	if c.world == nil || c.stepping {
		return max(c.busyUntil, c.lastStep)
	}
	return c.world.Now()
}

// Work says that the program needs so many cycles for what it does in this step. What it
// starts afterwards begins when they are over.
func (c *Card) Work(cycles int) {
	c.stats.Cycles += uint64(cycles)
	c.busyUntil = c.Now() + c.timing.cycles(cycles)
}

// notify sees to it that the program is called, because something has happened.
func (c *Card) notify() {
	c.woken = true
	if !c.stepping && c.world != nil {
		c.schedule(c.world.Now())
	}
}

// schedule has a step come not later than at, but not before the processor is free.
func (c *Card) schedule(at int64) {
	at = max(at, c.busyUntil, c.lastStep+1, c.world.Now())
	if c.stepAt == 0 || c.stepAt > at {
		c.stepAt = at
		c.world.At(at, c.step)
	}
}

// onStep is the event of a step.
func (c *Card) onStep() {
	if c.stepAt != c.world.Now() {
		return // replaced by an earlier one
	}
	c.stepAt = 0
	if next := c.run(c.world.Now()); next != transport.Forever {
		c.schedule(next)
	}
}

// run does a step and returns when the next one is due.
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

// maxSteps is the most steps of one Poll, so that it ends whatever the program does.
const maxSteps = 256

// Poll drives a live card: the program does what there is to do. It returns when to call
// again if nothing happens before; Pending says whether something has.
func (c *Card) Poll(now int64) (next int64) {
	for range maxSteps {
		if next = c.run(now); !c.woken {
			break
		}
	}
	return next
}

// Pending reports whether something has happened that may give the program of a live card
// work: Poll would see to it.
func (c *Card) Pending() bool { return c.woken }

// beginAt has fn happen at a time of the card's. If that is now, or the card is live, it
// happens at once.
func (c *Card) beginAt(at int64, fn func()) {
	if c.world != nil && at > c.world.Now() {
		c.world.At(at, fn)
		return
	}
	fn()
}
