package lanai

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vipl"
)

// Config configures a card and its control program. A zero field means the default.
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
	// Routes lead to the other nodes. If Routes is set, the card has no mapper and the routes never
	// change, as in the paper.
	Routes []myrinet.HostRoute
	// Mapper makes the card discover the other cards, at the start and continuously. This package
	// sets its ID and Card. Nil means no mapper in virtual time. On a live cable, nil means a
	// mapper with defaults if Routes is nil.
	Mapper *myrinet.MapperOptions
	// Logger is the mapper's logger if Mapper.Logger is nil; nil means slog.Default(). The handler
	// may block; vipl.Config.Logger describes when it is called.
	Logger *slog.Logger
	// Drop makes the card drop and count packets with CRC errors, as in the paper. A send then
	// completes when its data is in the card. By default the card retransmits lost packets, and a
	// send completes when its data is in the exporter's memory.
	Drop bool
	// Processes is the maximum number of processes on the card; 0 means 4. Nodes is the maximum
	// number of nodes that the card knows, including itself; 0 means 64, and the maximum is 256.
	// Memory is the maximum number of 4 KiB pages that the host can export, counted once for each
	// importer; 0 means 16384 (64 MiB, as on the paper's hosts), and the maximum is 2^24.
	Processes, Nodes, Memory int
	// PeerTimeout is how long a node may be silent before the card treats it as dead; 0 means
	// vipl.DefaultPeerTimeout. A process may have a shorter timeout (vmmc.Config). Retry is the
	// retransmission timeout; 0 means PeerTimeout/250.
	PeerTimeout, Retry time.Duration
	// Serial disables pipelining: the card fetches the next chunk from the host only after it has
	// sent the previous one. Use it to measure the effect of pipelining.
	Serial bool
	// Costs are the costs of the program's steps; nil means DefaultCosts.
	Costs *Costs
}

// Defaults of Config.
const (
	defaultProcesses = 4
	defaultNodes     = 64
	defaultMemory    = 16384 // 64 MB, as on the paper's hosts

	retriesPatient = 250
)

// resolve fills in the defaults and checks the configuration.
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
			return fmt.Errorf("lanai: Config.%s is %d: want %d to %d", x.what, x.v, x.lo, x.hi)
		}
	}
	if c.MAC == (ethertype.MAC{}) || c.MAC.IsGroup() {
		return fmt.Errorf("lanai: invalid node address %v (set Config.MAC to a unicast address)", c.MAC)
	}
	if c.Card.PageSize != 0 && c.Card.PageSize < slots*slotSize {
		return fmt.Errorf("lanai: the card has doorbell pages of %d bytes, a send queue needs %d (CardConfig.PageSize)", c.Card.PageSize, slots*slotSize)
	}
	return nil
}

// processSRAM is the part of the card's memory that a process uses in addition to its page, in
// bytes.
const processSRAM = outgoingSize + (tlbSize+7)&^7
