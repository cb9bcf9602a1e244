package lanai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Host is a node: a card with VMMC's control program, and the driver and daemon that
// belong to it. Processes of VMMC share it (vmmc.Config.Card). Goroutines may share it.
type Host struct {
	cfg     Config
	costs   Costs
	card    *myrinet.Card
	carrier carrier
	link    transport.Link  // what waits
	logs    *logqueue.Queue // of the mapper, which speaks under the lock
	close   sync.Once

	eng     progress.Engine // its lock guards all that follows
	prog    *program        // nil while the card maps
	maps    station.Mapping
	page    *myrinet.Page // the driver's doorbell
	routes  []myrinet.HostRoute
	load    bool // routes have come, and VMMC's program is not loaded yet
	failed  error
	next    int64  // when the card is to be driven again
	arrived uint64 // packets that have come
	closing bool
	idle    progress.Gate // open when nothing is under way any more
	frames  frames
	procs   map[uint16]*process
	port    uint16 // given last
	missing []*process
	came    fifo.Queue[message] // for the driver
	leaving fifo.Queue[message] // from it
	causes  uint32
	kept    []kept // frames of grants that have ended before their importers knew
	kicks   progress.Calls[*process]
	names   names
}

// carrier is what differs between virtual time and live.
type carrier interface {
	enter()                                  // a step of the program begins
	leave()                                  // and ends
	later()                                  // has the driver see to interrupts
	holds() bool                             // nothing leaves yet
	poll(now int64) (next int64, dead error) // dead is why nothing passes the card any more
	drive()                                  // has what was rung for leave soon
	pay()                                    // lets the time pass that the host has spent on access to the card
	doubt()                                  // has the next poll look at the interface
	snapshot() *myrinet.LivePort
}

// start loads the first program on a card that is plugged in.
func (h *Host) start(link transport.Link, birth uint64) error {
	h.costs, h.link = *h.cfg.Costs, link
	h.frames = newFrames(h.cfg.Memory)
	h.procs = map[uint16]*process{}
	h.names.init(h)
	h.eng.Init(link, (*machine)(h), nil)
	h.kicks.Init(&h.eng, func(p **process) { (*p).kick() })
	h.card.OnInterrupt(func(causes uint32) {
		h.causes |= causes
		h.carrier.later()
	})
	var err error
	if h.page, err = h.card.OpenPage("the driver"); err != nil {
		return err
	}
	h.prog = &program{h: h, birth: birth}
	if h.cfg.Mapper == nil {
		return h.loadProgram(h.cfg.Routes)
	}
	opts := *h.cfg.Mapper
	if opts.Log == nil {
		opts.Log = h.cfg.Logger
	}
	h.logs = logqueue.New(opts.Log)
	opts.Log = h.logs.Logger()
	if err := h.maps.Start(link.Now(), &opts, h.cfg.MAC, (*routeSetter)(h)); err != nil {
		return err
	}
	return h.card.Load(&mappingProgram{h: h})
}

// loadProgram replaces the mapping program by VMMC's, with its table of routes. If they are
// a mapper's and do not all fit, those that do are used.
func (h *Host) loadProgram(routes []myrinet.HostRoute) error {
	p := h.prog
	if err := h.card.Load(p); err != nil {
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
	h.page.Ring()
	return nil
}

// routeSetter is the host as its mapper sees it, within a step.
type routeSetter Host

// SetRoutes implements myrinet.RouteTable.
func (s *routeSetter) SetRoutes(entries []myrinet.HostRoute) {
	h := (*Host)(s)
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
}

// mapped has the driver load VMMC's program, with these routes to begin with.
func (h *Host) mapped(routes []myrinet.HostRoute) {
	h.routes, h.load = routes, true
	h.carrier.later()
}

// machine is the host as its engine sees it.
type machine Host

// Poll implements progress.Machine.
func (m *machine) Poll(now int64) bool {
	h := (*Host)(m)
	before := h.arrived
	next, dead := h.carrier.poll(now)
	if h.next = next; dead != nil && h.failed == nil {
		h.failed = fmt.Errorf("%w: %w", provider.ErrClosed, dead)
		h.eng.WakeAll()
	}
	return h.arrived != before
}

// Idle implements progress.Machine.
func (m *machine) Idle() {}

// NextTimer implements progress.Machine.
func (m *machine) NextTimer() int64 {
	return m.next
}

// Woke implements progress.Machine.
func (m *machine) Woke(err error) {
	if errors.Is(err, transport.ErrClosed) && m.failed == nil {
		m.failed = provider.ErrClosed
	}
	if err != nil {
		m.carrier.doubt()
	}
}

// Failed implements progress.Machine.
func (m *machine) Failed() error { return m.failed }

// Close ends the host: its processes' connections end, and the card is silent.
func (h *Host) Close() error {
	h.close.Do(func() {
		h.eng.Lock()
		if h.closing = true; !h.Virtual() {
			h.waitIdle()
		}
		if h.failed == nil {
			h.failed = provider.ErrClosed
		}
		for _, p := range h.inOrder() {
			p.tell(event{kind: eventClosed})
		}
		h.eng.Shut()
		h.eng.WakeAll()
		h.eng.Unlock()
		h.link.Close()
		h.eng.Stop()
		if h.logs != nil {
			h.logs.Flush(logFlush)
		}
	})
	return nil
}

// logFlush is how long Close waits for the last lines of the log to be handled.
const logFlush = 100 * time.Millisecond

// closeTime is how long Close lets the last messages of processes have to arrive.
const closeTime = 200 * time.Millisecond

// waitIdle waits until nothing is under way any more.
func (h *Host) waitIdle() {
	w := h.eng.BeginFor(context.Background(), closeTime)
	defer h.eng.End(&w)
	h.page.Ring()
	for h.prog.ready && h.prog.busy() && h.failed == nil {
		if h.eng.Wait(&w, &h.idle) != nil {
			return
		}
	}
}

// MAC returns the node's address.
func (h *Host) MAC() ethertype.MAC { return h.cfg.MAC }

// WithTimeout returns a copy of ctx that ends when d has passed on the host's clock, which
// is the world's in virtual time.
func (h *Host) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return h.eng.WithTimeout(ctx, d)
}

// Virtual reports whether the host is in virtual time.
func (h *Host) Virtual() bool { return h.eng.Virtual() }

// inOrder returns the processes by their ports, so that what happens to several happens in the same
// order in each run of a simulation.
func (h *Host) inOrder() []*process {
	return slices.SortedFunc(maps.Values(h.procs), func(a, b *process) int { return cmp.Compare(a.port, b.port) })
}
