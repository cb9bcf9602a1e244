package lanai

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Card is an emulated card that runs VMMC's control program, with the driver and the daemon of its
// node. VMMC processes share it (vmmc.Config.Card). Goroutines may share it.
type Card struct {
	cfg   Config
	costs Costs
	clock *clock // nil if live
	close sync.Once

	host    station.Host // its engine's lock guards the fields below
	prog    *program     // nil while the card maps
	maps    station.Mapping
	page    *hardware.Page // doorbell of the driver
	routes  []myrinet.HostRoute
	load    bool // routes have arrived, and VMMC's program is not loaded yet
	closing bool
	idle    progress.Gate // open when nothing is in flight
	frames  frames
	procs   map[uint16]*seat
	port    uint16 // last port assigned
	missing []*seat
	came    fifo.Queue[message] // for the driver
	leaving fifo.Queue[message] // from the driver
	causes  uint32
	kept    []kept // frames of grants that have ended before their importers knew
	kicks   progress.Calls[*process]
	names   names

	far     *far                 // connection to the process that owns the card; nil if this process owns it
	tenants map[*tenant]struct{} // other processes that use the card
	limits  limits               // of the tenants
}

// startDriver opens the page of the driver, and loads the first program on a card that is plugged in.
func (h *Card) startDriver(birth uint64) error {
	h.costs = *h.cfg.Costs
	h.frames = newFrames(0, h.cfg.Memory)
	h.procs = map[uint16]*seat{}
	h.names.init(h)
	h.kicks.Init(&h.host.Engine, func(p **process) { (*p).kick() })
	h.host.Card.OnInterrupt(func(causes uint32) {
		h.causes |= causes
		h.later()
	})
	var err error
	if h.page, err = h.host.Card.OpenPage("the driver"); err != nil {
		return err
	}
	h.prog = &program{h: h, birth: birth}
	if h.cfg.Mapper == nil {
		return h.loadProgram(h.cfg.Routes)
	}
	if err := h.maps.Start(h.host.Now(), h.host.Logged(h.cfg.Mapper, h.cfg.Logger), h.cfg.MAC, (*routeSetter)(h)); err != nil {
		return err
	}
	return h.host.Card.Load(&mappingProgram{h: h})
}

// loadProgram replaces the mapping program by VMMC's, with its table of routes. If the routes of a
// mapper do not all fit, it uses those that do.
func (h *Card) loadProgram(routes []myrinet.HostRoute) error {
	p := h.prog
	if err := h.host.Card.Load(p); err != nil {
		return err
	}
	p.ready = true
	if err := p.nodes.Set(routes); err != nil && h.maps.Agent == nil {
		return err
	} else if err != nil {
		p.count.RouteErrors++
	}
	for _, x := range h.inOrder() {
		if err := x.attach(); err != nil {
			return err
		}
	}
	h.announce()
	h.page.Ring()
	return nil
}

// routeSetter is the host as its mapper calls it, within a step.
type routeSetter Card

// SetRoutes implements mapper.RouteTable.
func (s *routeSetter) SetRoutes(entries []myrinet.HostRoute) {
	h := (*Card)(s)
	routes := h.maps.Routes(entries)
	if !h.prog.ready {
		if len(routes) > 0 {
			h.mapped(routes)
		}
		return
	}
	if err := h.prog.nodes.Set(routes); err != nil {
		h.prog.count.RouteErrors++
	}
	h.announce()
}

// mapped makes the driver load VMMC's program with these initial routes.
func (h *Card) mapped(routes []myrinet.HostRoute) {
	h.routes, h.load = routes, true
	h.later()
}

// Close closes the card. The connections of its processes end, and the card no longer sends
// packets.
func (h *Card) Close() error {
	h.close.Do(func() {
		h.host.Engine.Lock()
		if h.closing = true; !h.Virtual() && h.far == nil {
			h.waitIdle()
		}
		for _, p := range h.inOrder() {
			p.tell(event{kind: eventClosed})
		}
		h.host.Close()
	})
	return nil
}

// Close waits for the last messages of processes to arrive. It gives up after closeMost, or when no
// packet has been answered for closeTime, during which either process may not have been scheduled.
const (
	closeTime = 500 * time.Millisecond
	closeMost = 10 * time.Second
)

// waitIdle waits until nothing is in flight, or gives up.
func (h *Card) waitIdle() {
	h.page.Ring()
	for range closeMost / closeTime {
		before := h.answered()
		if h.idleWithin(closeTime) || h.answered() == before {
			return
		}
	}
}

// answered returns the number of answers to this card's packets.
func (h *Card) answered() (n uint64) {
	for _, k := range h.prog.send.Stats().Answers {
		n += k
	}
	return n
}

// idleWithin waits until nothing is in flight, or the card has failed. It returns false if that
// takes longer than d.
func (h *Card) idleWithin(d time.Duration) bool {
	w := h.host.Engine.BeginFor(context.Background(), d)
	defer h.host.Engine.End(&w)
	for h.prog.ready && h.prog.busy() && h.host.Failed() == nil {
		if h.host.Engine.Wait(&w, &h.idle) != nil {
			return false
		}
	}
	return true
}

// MAC returns the node's address.
func (h *Card) MAC() ethertype.MAC { return h.cfg.MAC }

// WithTimeout returns a copy of ctx that ends after d on the host's clock, or when cancel is
// called. In virtual time the host's clock is the world's.
func (h *Card) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return h.host.Engine.WithTimeout(ctx, d)
}

// Virtual reports whether the card runs in virtual time.
func (h *Card) Virtual() bool { return h.host.Engine.Virtual() }

// inOrder returns the processes in the order of their ports, so that actions on several processes
// have the same order in each run of a simulation.
func (h *Card) inOrder() []*seat {
	return slices.SortedFunc(maps.Values(h.procs), func(a, b *seat) int { return cmp.Compare(a.port, b.port) })
}
