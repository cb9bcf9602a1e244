package metrics

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/bobnet-go/bobnet/endpoint"
	amcard "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// What the Collector asks of the things that it watches. The Watch methods spell these types
// out, so that go doc shows what they ask.
type (
	nicSource  = interface{ Snapshot() vipl.Snapshot }
	commSource = interface {
		Snapshot() mplite.Stats
		Pending() mplite.Pending
	}
	nodeSource = interface {
		Addr() ethertype.Addr
		Stats() endpoint.Stats
		Snapshot() endpoint.Snapshot
	}
	processSource      = interface{ Snapshot() vmmc.Snapshot }
	worldSource        = interface{ Snapshot() splitc.Snapshot }
	streamSource       = interface{ Snapshot() stream.Snapshot }
	rpcSource          = interface{ Snapshot() vrpc.Snapshot }
	daemonSource       = interface{ Snapshot() daemon.Snapshot }
	tunSource          = interface{ Snapshot() tun.Snapshot }
	cardSource         = interface{ Snapshot() plain.Snapshot }
	endpointCardSource = interface{ Snapshot() amcard.Snapshot }
	vmmcCardSource     = interface{ Snapshot() vmmccard.Snapshot }
)

// sealer is a NIC whose frames may be sealed (vipl.Config.Key).
type sealer interface {
	SealStats() (stats seal.Stats, sealed bool)
}

// WatchNIC adds a NIC to what is exported, and the card that it is on, if it is one of the
// emulated Myrinet; call the result when it closes.
func (c *Collector) WatchNIC(n interface{ Snapshot() vipl.Snapshot }) (forget func()) {
	nic, card := c.nics.add(n), c.watchCardOf(n)
	return func() {
		card()
		nic()
	}
}

// rankComm returns the rank that is exported now, or nil.
func (c *Collector) rankComm() commSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comm
}

// WatchComm exports the counters of the process's rank, which any of its
// communicators gives, in place of the rank watched before; call the result
// when the rank ends.
func (c *Collector) WatchComm(m interface {
	Snapshot() mplite.Stats
	Pending() mplite.Pending
}) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comm = m
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.comm == m {
			c.comm = nil
		}
	}
}

// WatchRank is WatchComm, and WatchNIC for the NIC of the rank if it has one;
// call the result when the rank ends.
func (c *Collector) WatchRank(m *mplite.Comm) (forget func()) {
	forget = c.WatchComm(m)
	if nic := m.NIC(); nic != nil {
		rank, forgetNIC := forget, c.WatchNIC(nic)
		forget = func() {
			forgetNIC()
			rank()
		}
	}
	return forget
}

// WatchNode adds a node of active messages to what is exported, besides its NIC,
// which WatchNIC adds; call the result when it closes.
func (c *Collector) WatchNode(n interface {
	Addr() ethertype.Addr
	Stats() endpoint.Stats
	Snapshot() endpoint.Snapshot
}) (forget func()) {
	return c.nodes.add(n)
}

// WatchProcess adds a process of VMMC to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchProcess(p interface{ Snapshot() vmmc.Snapshot }) (forget func()) {
	return c.processes.add(p)
}

// WatchWorld adds a process of Split-C to what is exported, besides its NIC, which
// WatchNIC adds; call the result before it exits.
func (c *Collector) WatchWorld(w interface{ Snapshot() splitc.Snapshot }) (forget func()) {
	return c.worlds.add(w)
}

// WatchStreams adds a host of streams to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchStreams(h interface{ Snapshot() stream.Snapshot }) (forget func()) {
	return c.hosts.add(h)
}

// WatchRPC adds a server of remote procedures to what is exported; call the result when it
// closes. Servers are numbered in their order.
func (c *Collector) WatchRPC(s interface{ Snapshot() vrpc.Snapshot }) (forget func()) {
	return c.servers.add(s)
}

// WatchDaemon adds the daemon of a node to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchDaemon(d interface{ Snapshot() daemon.Snapshot }) (forget func()) {
	return c.daemons.add(d)
}

// WatchTun adds an IP network over VIs to what is exported, besides its NIC, which WatchNIC
// adds; call the result when it closes.
func (c *Collector) WatchTun(t interface{ Snapshot() tun.Snapshot }) (forget func()) {
	return c.tuns.add(t)
}

// WatchCard adds a card of the emulated Myrinet to what is exported, with its cable and the
// host's mapper; call the result when it closes. WatchNIC does so for the card that a NIC is
// on.
func (c *Collector) WatchCard(card interface{ Snapshot() plain.Snapshot }) (forget func()) {
	return c.cards.add(plainCard{card})
}

// WatchEndpointCard adds a card that holds endpoints to what is exported, with its cable and
// the host's mapper; call the result when it closes.
func (c *Collector) WatchEndpointCard(card interface{ Snapshot() amcard.Snapshot }) (forget func()) {
	return c.cards.add(endpointCard{card})
}

// WatchVMMCCard adds a host whose card runs VMMC's program to what is exported, with its
// cable and its mapper; call the result when it closes.
func (c *Collector) WatchVMMCCard(h interface{ Snapshot() vmmccard.Snapshot }) (forget func()) {
	return c.cards.add(vmmcHost{h})
}

// watchCardOf is WatchCard for the card that a NIC is on, if it is on one.
func (c *Collector) watchCardOf(n nicSource) (forget func()) {
	if on, ok := n.(*vipl.NIC); ok {
		if card, ok := transport.As[cardSource](seam.Link(on)); ok {
			return c.WatchCard(card)
		}
	}
	return func() {}
}

// anyCard is a card, whatever program it runs. All share one list, so that no two have the
// same label.
type anyCard interface{ state() cardState }

// cardState is a snapshot of a card, and the table of what its program adds.
type cardState struct {
	*station.Snapshot
	whole io.WriterTo // pointer to the snapshot of the program's package
	table *table
}

type (
	plainCard    struct{ cardSource }
	endpointCard struct{ endpointCardSource }
	vmmcHost     struct{ vmmcCardSource }
)

func (p plainCard) state() cardState {
	s := p.Snapshot()
	return cardState{&s.Snapshot, &s, plainTable}
}

func (e endpointCard) state() cardState {
	s := e.Snapshot()
	return cardState{&s.Snapshot, &s, amCardTable}
}

func (v vmmcHost) state() cardState {
	s := v.Snapshot()
	return cardState{&s.Snapshot, &s, vmmcCardTable}
}

// watching is what is watched of one kind.
type watching[T comparable] struct {
	mu  sync.Mutex
	all []*watched[T] // in the order of watching
}

// watched is one of them, and what its labels say, once that is known.
type watched[T comparable] struct {
	it     T
	labels string
	number int // among those whose labels say the same, from 1
}

// add adds it, unless it is there already. forget removes it.
func (w *watching[T]) add(it T) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	is := func(x *watched[T]) bool { return x.it == it }
	if !slices.ContainsFunc(w.all, is) {
		w.all = append(w.all, &watched[T]{it: it})
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), is)
	}
}

// list returns what is watched now. Nobody asks it for a snapshot with w.mu
// held, so that one that hangs stops neither a dump nor forgetting it.
func (w *watching[T]) list() []*watched[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[:len(w.all):len(w.all)]
}

// distinct returns the labels of x with "#2" behind the last one if those of another are the same,
// and so on. The number stays while x is watched. Without it Prometheus would get the same series
// twice, and accept none at all.
func (w *watching[T]) distinct(x *watched[T], of ...string) []string {
	labels := strings.Join(of, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.number == 0 || x.labels != labels {
		x.labels, x.number = labels, 1
		taken := func(y *watched[T]) bool { return y != x && y.labels == labels && y.number == x.number }
		for slices.ContainsFunc(w.all, taken) {
			x.number++
		}
	}
	if x.number > 1 {
		of[len(of)-1] += fmt.Sprintf("#%d", x.number)
	}
	return of
}
