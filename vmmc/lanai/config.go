package lanai

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vipl"
)

// Config describes a card and its control program. Every zero field means the default.
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
	// Routes lead to the other nodes. With Routes the card does not map, and the table stays as it
	// is, as in the paper.
	Routes []myrinet.HostRoute
	// Mapper makes the card find the other cards, before and beside its work; its ID and Card are
	// set by this package. Nil means no mapper in virtual time. On a live cable, nil means a mapper
	// with defaults if Routes is nil.
	Mapper *myrinet.MapperOptions
	// Logger is the mapper's if Mapper.Logger is nil; nil means slog.Default(). The handler of either
	// is called as vipl.Config.Logger says, and may block.
	Logger *slog.Logger
	// Drop makes the card drop and count packets with CRC errors, as in the paper, and sends end
	// when their data is in the card. By default lost packets are sent again, and sends end
	// when their data is in the exporter's memory.
	Drop bool
	// Processes is how many processes the card has room for; 0 means 4.
	// Nodes is how many nodes it knows, including itself; 0 means 64, at most 256.
	// Memory is how many pages of 4 KiB the host can export, counted once for
	// each importer; 0 means 16384 (64 MiB, as the paper's hosts have), at most 2^24.
	Processes, Nodes, Memory int
	// PeerTimeout is how long a node may be silent before it counts as dead; 0 means
	// vipl.DefaultPeerTimeout. A process may have a shorter one (vmmc.Config). Retry is the time
	// after which an unanswered packet is sent again; 0 means PeerTimeout/250.
	PeerTimeout, Retry time.Duration
	// Serial makes the card fetch the next chunk from the host only after the previous one has
	// left, without pipelining, to measure what pipelining gains.
	Serial bool
	// Costs are those of the program's steps; nil means DefaultCosts.
	Costs *Costs
}

// Defaults of Config.
const (
	defaultProcesses = 4
	defaultNodes     = 64
	defaultMemory    = 16384 // 64 MB, as the paper's hosts have

	retriesPatient = 250
)

// resolve fills in what is left out and checks the rest.
func (c *Config) resolve() error {
	set := func(p *int, value int) {
		if *p == 0 {
			*p = value
		}
	}
	set(&c.Processes, defaultProcesses)
	set(&c.Nodes, defaultNodes)
	set(&c.Memory, defaultMemory)
	if c.PeerTimeout == 0 {
		c.PeerTimeout = vipl.DefaultPeerTimeout
	}
	if c.Retry == 0 {
		c.Retry = max(c.PeerTimeout/retriesPatient, time.Microsecond)
	}
	if c.Costs == nil {
		d := DefaultCosts()
		c.Costs = &d
	}
	for _, x := range []struct {
		what      string
		v, lo, hi int64
	}{
		{"Processes", int64(c.Processes), 1, 1 << 10}, {"Nodes", int64(c.Nodes), 2, maxNodes}, {"Memory", int64(c.Memory), 2, maxMemory},
		{"PeerTimeout", int64(c.PeerTimeout), 1, int64(time.Hour)}, {"Retry", int64(c.Retry), 1, int64(time.Minute)},
	} {
		if x.v < x.lo || x.v > x.hi {
			return fmt.Errorf("lanai: Config.%s is %d, it can be %d to %d", x.what, x.v, x.lo, x.hi)
		}
	}
	if c.MAC == (ethertype.MAC{}) || c.MAC.IsGroup() {
		return fmt.Errorf("lanai: the node's address is %v: it needs one of its own (Config.MAC)", c.MAC)
	}
	if c.Card.PageSize != 0 && c.Card.PageSize < slots*slotSize {
		return fmt.Errorf("lanai: the card has doorbell pages of %d octets, a send queue needs %d (CardConfig.PageSize)", c.Card.PageSize, slots*slotSize)
	}
	return nil
}

// processSRAM is what a process takes of the card's memory, in octets, beside its page.
const processSRAM = outgoingSize + (tlbSize+7)&^7
