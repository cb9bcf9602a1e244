package lanai

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vipl"
)

// Config says what a card, its control program and its node are like. MAC is needed in virtual time.
type Config struct {
	Interface string              // live: name or MAC of the network interface that is the cable's end; "" for the only one that is up
	Cable     myrinet.LiveOptions // live

	MAC  ethertype.MAC // of the node; live, zero means the interface's
	Card myrinet.CardConfig
	// Routes lead to the other nodes. With them the card maps nothing, and the table is
	// what it is, as in the paper.
	Routes []myrinet.HostRoute
	// Mapper has the card find the other nodes, before and beside its work; its ID and Card
	// are the host's. Nil means none in virtual time. Live, it means defaults for live fabrics if Routes
	// is nil.
	Mapper *myrinet.MapperOptions
	// Drop has packets with CRC errors be lost and counted, as in the paper, and sends end
	// when their data is in the card. Otherwise packets that are lost are sent again, and
	// sends end when their data is in the exporter's memory.
	Drop bool
	// Processes is how many processes the card has room for; 0 means 4.
	// Nodes is how many nodes it knows, itself among them; 0 means 64, at most
	// maxNodes. Memory is how many pages of 4 KiB the host can have exported, counted for
	// each importer; 0 means 16384 (64 MB, as the paper's hosts have), at most maxMemory.
	Processes, Nodes, Memory int
	// PeerTimeout is after how long a node that does not answer is taken for gone; 0 means
	// vipl.DefaultPeerTimeout. A process may be more impatient (vmmc.Config). Retry is
	// after how long a packet is sent again that nothing has answered; 0 means a part in
	// 250 of it.
	PeerTimeout, Retry time.Duration
	// Serial has the card fetch the next chunk from the host only when the one before has
	// left, in place of both at the same time: it shows what pipelining is worth.
	Serial bool
	// Costs are those of the program's steps; nil means DefaultCosts.
	Costs *Costs
	// Logger is the mapper's, if Mapper.Logger is not set; nil means slog.Default(). The handler of either
	// is called as vipl.Config.Logger says, and may block.
	Logger *slog.Logger
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
