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

// The interfaces of the objects that the Collector watches. The Watch methods spell these types
// out, so that go doc shows them.
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

// sealer is a NIC whose frames may be encrypted (vipl.Config.Key).
type sealer interface {
	SealStats() (stats seal.Stats, sealed bool)
}

// WatchNIC exports a NIC, and its card if it is on one of the emulated Myrinet. Call forget when
// the NIC closes.
func (c *Collector) WatchNIC(n interface{ Snapshot() vipl.Snapshot }) (forget func()) {
	nic, card := c.nics.add(n), c.watchCardOf(n)
	return func() {
		card()
		nic()
	}
}

// rankComm returns the exported rank, or nil.
func (c *Collector) rankComm() commSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comm
}

// WatchComm exports the counters of the process's rank, in place of the rank watched before. Any
// communicator of the rank will do. Call forget when the rank ends.
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

// WatchRank is WatchComm, and WatchNIC for the NIC of the rank if it has one. Call forget when the
// rank ends.
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

// WatchNode exports a node of active messages, without its NIC (see WatchNIC). Call forget when the
// node closes.
func (c *Collector) WatchNode(n interface {
	Addr() ethertype.Addr
	Stats() endpoint.Stats
	Snapshot() endpoint.Snapshot
}) (forget func()) {
	return c.nodes.add(n)
}

// WatchProcess exports a process of VMMC, without its NIC (see WatchNIC). Call forget when the
// process closes.
func (c *Collector) WatchProcess(p interface{ Snapshot() vmmc.Snapshot }) (forget func()) {
	return c.processes.add(p)
}

// WatchWorld exports a process of Split-C, without its NIC (see WatchNIC). Call forget before it
// exits.
func (c *Collector) WatchWorld(w interface{ Snapshot() splitc.Snapshot }) (forget func()) {
	return c.worlds.add(w)
}

// WatchStreams exports a host of streams, without its NIC (see WatchNIC). Call forget when the host
// closes.
func (c *Collector) WatchStreams(h interface{ Snapshot() stream.Snapshot }) (forget func()) {
	return c.hosts.add(h)
}

// WatchRPC exports a server of remote procedures. Servers are numbered in the order of the calls.
// Call forget when the server closes.
func (c *Collector) WatchRPC(s interface{ Snapshot() vrpc.Snapshot }) (forget func()) {
	return c.servers.add(s)
}

// WatchDaemon exports the daemon of a node, without its NIC (see WatchNIC). Call forget when the
// daemon closes.
func (c *Collector) WatchDaemon(d interface{ Snapshot() daemon.Snapshot }) (forget func()) {
	return c.daemons.add(d)
}

// WatchTun exports an IP network over VIs, without its NIC (see WatchNIC). Call forget when the
// network closes.
func (c *Collector) WatchTun(t interface{ Snapshot() tun.Snapshot }) (forget func()) {
	return c.tuns.add(t)
}

// WatchCard exports a card of the emulated Myrinet, with its cable and the host's mapper. Call
// forget when the card closes. WatchNIC exports the card of a NIC itself.
func (c *Collector) WatchCard(card interface{ Snapshot() plain.Snapshot }) (forget func()) {
	return c.cards.add(plainCard{card})
}

// WatchEndpointCard exports a card that holds endpoints, with its cable and the host's mapper. Call
// forget when the card closes.
func (c *Collector) WatchEndpointCard(card interface{ Snapshot() amcard.Snapshot }) (forget func()) {
	return c.cards.add(endpointCard{card})
}

// WatchVMMCCard exports a host whose card runs VMMC's control program, with its cable and its
// mapper. Call forget when the card closes.
func (c *Collector) WatchVMMCCard(h interface{ Snapshot() vmmccard.Snapshot }) (forget func()) {
	return c.cards.add(vmmcHost{h})
}

// watchCardOf is WatchCard for the card of a NIC, if it is on one.
func (c *Collector) watchCardOf(n nicSource) (forget func()) {
	if on, ok := n.(*vipl.NIC); ok {
		if card, ok := transport.As[cardSource](seam.Link(on)); ok {
			return c.WatchCard(card)
		}
	}
	return func() {}
}

// anyCard is a card, whatever program it runs. All cards share one list, so that no two have the
// same label.
type anyCard interface{ state() cardState }

// cardState is a snapshot of a card, with the table of its program's additional metrics.
type cardState struct {
	*station.Snapshot
	whole io.WriterTo // pointer to the snapshot of the program's own package
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

// watching is the list of watched objects of one kind.
type watching[T comparable] struct {
	mu  sync.Mutex
	all []*watched[T] // in the order in which they were added
}

// watched is one watched object, with its labels once they are known.
type watched[T comparable] struct {
	it     T
	labels string
	number int // among objects with the same labels, from 1
}

// add adds an object unless it is already there. forget removes it.
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

// list returns the watched objects. Snapshots are taken without w.mu, so that an object that hangs
// stops neither a dump nor forget.
func (w *watching[T]) list() []*watched[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[:len(w.all):len(w.all)]
}

// distinct returns the labels of x. If another object has the same labels, it appends "#2" to the
// last one, and so on. The number remains while x is watched. Prometheus would otherwise get the
// same series twice, and reject all of them.
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
