package metrics

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
)

// defaultMaxVIs is the default of Config.MaxVIs.
const defaultMaxVIs = 64

// Config adjusts a Collector; nil means the defaults.
type Config struct {
	// MaxVIs is how many VIs of a NIC have time series of their own; 0 means
	// 64. The others are added up.
	MaxVIs int
	// Labels are added to every metric, for example the rank.
	Labels prometheus.Labels
}

// NIC is what the Collector asks of a NIC; *vipl.NIC has it.
type NIC interface{ Snapshot() vipl.Snapshot }

// Comm is what the Collector asks of a communicator; *mplite.Comm has it.
type Comm interface {
	Snapshot() mplite.Stats
	Pending() mplite.Pending
}

// Collector is a prometheus.Collector over any number of NICs, cards, nodes of active messages,
// processes of VMMC and of Split-C, daemons of VMMC and servers of remote procedures, and a rank. It may be
// shared between goroutines. The zero Collector is not usable.
type Collector struct {
	maxVIs      int
	nic         []*prometheus.Desc // as nicFields
	vi          []*prometheus.Desc // as viFields
	rank        []*prometheus.Desc // as rankFields
	node        []*prometheus.Desc // as nodeFields
	nicInfo     *prometheus.Desc
	viInfo      *prometheus.Desc
	drops       *prometheus.Desc
	errors      *prometheus.Desc
	lost        *prometheus.Desc
	unused      *prometheus.Desc
	again       *prometheus.Desc
	collectives *prometheus.Desc
	refused     *prometheus.Desc
	returned    *prometheus.Desc

	process, rpc         []*prometheus.Desc // as processFields, rpcFields
	world                []*prometheus.Desc // as worldFields
	stream               []*prometheus.Desc // as streamFields
	splitcOps            *prometheus.Desc
	splitcBytes          *prometheus.Desc
	refusedWrites        *prometheus.Desc
	rpcCalls, rpcRefused *prometheus.Desc

	daemon             []*prometheus.Desc // as daemonFields
	card, mapper, maps []*prometheus.Desc // as cardFields, mapperFields, mapFields
	cardDropped        *prometheus.Desc
	tun                []*prometheus.Desc // as tunFields
	tunDropped         *prometheus.Desc
	seal               []*prometheus.Desc // as sealFields
	sealDropped        *prometheus.Desc

	plain, endpointCard, vmmcCard                                 []*prometheus.Desc // as plainFields, endpointCardFields, vmmcCardFields
	endpointCardNacked, endpointCardReturned, endpointCardDropped *prometheus.Desc
	vmmcCardRefused, vmmcCardDropped                              *prometheus.Desc

	nics      watching[NIC]
	cards     watching[anyCard]
	nodes     watching[Node]
	processes watching[Process]
	servers   watching[RPCServer]
	worlds    watching[World]
	hosts     watching[StreamHost]
	daemons   watching[Daemon]
	tuns      watching[Tun]

	mu   sync.Mutex
	comm Comm
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector that watches nothing yet.
func NewCollector(cfg *Config) *Collector {
	if cfg == nil {
		cfg = &Config{}
	}
	c := &Collector{maxVIs: cfg.MaxVIs}
	if c.maxVIs <= 0 {
		c.maxVIs = defaultMaxVIs
	}
	c.nic = describe(nicFields, cfg.Labels, nicLabels...)
	c.vi = describe(viFields, cfg.Labels, viLabels...)
	c.rank = describe(rankFields, cfg.Labels)
	c.node = describe(nodeFields, cfg.Labels, nodeLabels...)
	c.process, c.refusedWrites = describe(processFields, cfg.Labels, processLabels...), refusedWrites.describe(cfg.Labels)
	c.world, c.splitcOps, c.splitcBytes = describe(worldFields, cfg.Labels, worldLabels...), splitcOps.describe(cfg.Labels), splitcBytes.describe(cfg.Labels)
	c.stream = describe(streamFields, cfg.Labels, streamLabels...)
	c.rpc, c.rpcCalls, c.rpcRefused = describe(rpcFields, cfg.Labels, rpcLabels...), rpcCalls.describe(cfg.Labels), rpcRefused.describe(cfg.Labels)
	c.daemon = describe(daemonFields, cfg.Labels, daemonLabels...)
	c.card, c.cardDropped = describe(cardFields, cfg.Labels, cardLabels...), cardDropped.describe(cfg.Labels)
	c.tun, c.tunDropped = describe(tunFields, cfg.Labels, tunLabels...), tunDropped.describe(cfg.Labels)
	c.seal, c.sealDropped = describe(sealFields, cfg.Labels, nicLabels...), sealDropped.describe(cfg.Labels)
	c.plain, c.endpointCard, c.vmmcCard = describe(plainFields, cfg.Labels, cardLabels...), describe(endpointCardFields, cfg.Labels, cardLabels...), describe(vmmcCardFields, cfg.Labels, cardLabels...)
	c.endpointCardNacked, c.endpointCardReturned, c.endpointCardDropped = endpointCardNacked.describe(cfg.Labels), endpointCardReturned.describe(cfg.Labels), endpointCardDropped.describe(cfg.Labels)
	c.vmmcCardRefused, c.vmmcCardDropped = vmmcCardRefused.describe(cfg.Labels), vmmcCardDropped.describe(cfg.Labels)
	c.mapper, c.maps = describe(mapperFields, cfg.Labels, cardLabels...), describe(mapFields, cfg.Labels, cardLabels...)
	c.refused, c.returned = refused.describe(cfg.Labels), returned.describe(cfg.Labels)
	c.nicInfo, c.viInfo = nicInfo.describe(cfg.Labels), viInfo.describe(cfg.Labels)
	c.drops, c.lost = drops.describe(cfg.Labels), lost.describe(cfg.Labels)
	c.errors = errors.describe(cfg.Labels)
	c.unused = unused.describe(cfg.Labels)
	c.again, c.collectives = again.describe(cfg.Labels), collectives.describe(cfg.Labels)
	return c
}

// WatchNIC adds a NIC to what is exported, and the card that it is on, if it is one of the
// emulated Myrinet; call the result when it closes.
func (c *Collector) WatchNIC(n NIC) (forget func()) {
	nic, card := c.nics.add(n), c.watchCardOf(n)
	return func() {
		card()
		nic()
	}
}

// rankComm returns the rank that is exported now, or nil.
func (c *Collector) rankComm() Comm {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.comm
}

// WatchComm exports the counters of the process's rank, which any of its
// communicators gives, in place of the rank watched before; call the result
// when the rank ends.
func (c *Collector) WatchComm(m Comm) (forget func()) {
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

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, descs := range [][]*prometheus.Desc{c.nic, c.vi, c.rank, c.node, c.process, c.world, c.stream, c.rpc, c.daemon, c.card, c.plain, c.endpointCard, c.vmmcCard, c.mapper, c.maps, c.tun, c.seal,
		{c.nicInfo, c.viInfo, c.drops, c.errors, c.lost, c.unused, c.again, c.collectives, c.refused, c.returned},
		{c.refusedWrites, c.splitcOps, c.splitcBytes, c.rpcCalls, c.rpcRefused, c.cardDropped, c.tunDropped, c.sealDropped},
		{c.endpointCardNacked, c.endpointCardReturned, c.endpointCardDropped, c.vmmcCardRefused, c.vmmcCardDropped}} {
		for _, d := range descs {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch, c.maxVIs, false) }

// collect is Collect with so many VIs of a NIC one by one. For the agent NICs are left out of
// which it asks itself.
func (c *Collector) collect(ch chan<- prometheus.Metric, maxVIs int, forAgent bool) {
	for _, n := range c.nics.list() {
		if forAgent && leased(n.it) {
			continue
		}
		s := n.it.Snapshot()
		a := &s.Attributes
		port := strconv.Itoa(int(a.Addr.Port)) + c.nics.distinct(n, fmt.Sprint(a.Name, " ", a.Addr.Port))
		c.collectNIC(ch, &s, port, maxVIs)
		c.collectSeal(ch, n.it, a.Name, port)
	}
	if comm := c.rankComm(); comm != nil {
		s := rankState{comm.Snapshot(), comm.Pending()}
		emit(ch, c.rank, rankFields, &s)
		for k, n := range s.Collectives {
			ch <- counter(c.collectives, n, mplite.Collective(k).String())
		}
	}
	c.collectNodes(ch)
	c.collectProcesses(ch)
	c.collectWorlds(ch)
	c.collectStreams(ch)
	c.collectServers(ch)
	c.collectDaemons(ch)
	c.collectCards(ch)
	c.collectTuns(ch)
}

func emit[S any](ch chan<- prometheus.Metric, descs []*prometheus.Desc, fields []field[S], s *S, labels ...string) {
	for i := range fields {
		f := &fields[i]
		ch <- prometheus.MustNewConstMetric(descs[i], f.kind(), f.value(s), labels...)
	}
}

// count exports a counter for each reason.
func count[S any](ch chan<- prometheus.Metric, desc *prometheus.Desc, reasons []reason[S], s *S, label string) {
	for i := range reasons {
		ch <- counter(desc, reasons[i].value(s), label, reasons[i].name)
	}
}

func counter(desc *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

// collectNIC exports a NIC under the label port, and so many of its VIs one by one.
func (c *Collector) collectNIC(ch chan<- prometheus.Metric, s *vipl.Snapshot, port string, maxVIs int) {
	a := &s.Attributes
	name := a.Name
	emit(ch, c.nic, nicFields, s, name, port)
	ch <- prometheus.MustNewConstMetric(c.nicInfo, prometheus.GaugeValue, 1, name, port, a.Addr.MAC.String(), a.Driver, fmt.Sprintf("%016x", a.Incarnation))
	for _, why := range vipl.Drops() {
		ch <- counter(c.drops, s.Dropped[why], name, port, why.String())
	}
	for _, code := range vipl.ErrorCodes() {
		ch <- counter(c.errors, s.Errors[code], name, port, code.String())
	}
	for i := range linkDrops {
		ch <- counter(c.lost, linkDrops[i].value(&s.Link), name, port, linkDrops[i].name)
	}
	var rest vipl.VISnapshot
	if s.Rest != nil {
		rest = *s.Rest
	}
	for i := range s.VIs {
		v := &s.VIs[i]
		if i >= maxVIs {
			rest.Add(v)
			continue
		}
		vi := strconv.Itoa(int(v.Local.Port))
		c.collectVI(ch, v, name, port, vi)
		remote := ""
		if v.State != vipl.StateIdle {
			remote = v.Remote.String()
		}
		ch <- prometheus.MustNewConstMetric(c.viInfo, prometheus.GaugeValue, 1, name, port, vi, remote, v.Level.String(), v.State.String())
	}
	if len(s.VIs) > maxVIs || s.Rest != nil {
		c.collectVI(ch, &rest, name, port, "other")
	}
}

func (c *Collector) collectVI(ch chan<- prometheus.Metric, v *vipl.VISnapshot, name, port, vi string) {
	emit(ch, c.vi, viFields, v, name, port, vi)
	for i := range causes {
		ch <- counter(c.again, causes[i].value(&v.Sender), name, port, vi, causes[i].name)
	}
	for why, n := range v.Dropped {
		if n > 0 { // most never occur, and there may be many VIs
			ch <- counter(c.unused, n, name, port, vi, vipl.Drop(why).String())
		}
	}
}
