package metrics

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/prometheus/client_golang/prometheus"
)

// defaultMaxVIs is the default of Config.MaxVIs.
const defaultMaxVIs = 64

// Config configures a Collector; nil means the defaults.
type Config struct {
	// MaxVIs is how many VIs of a NIC have separate time series; 0 means 64. The others are added
	// up.
	MaxVIs int
	// Labels are added to every metric, for example the rank.
	Labels prometheus.Labels
}

// Collector is a prometheus.Collector for any number of Bobnet objects: NICs, cards, nodes of active
// messages, processes of VMMC and of Split-C, daemons, servers of remote procedures, and one rank. It may
// be shared between goroutines. The zero Collector is not usable.
type Collector struct {
	exporter
	maxVIs int

	nics      watching[nicSource]
	cards     watching[anyCard]
	nodes     watching[nodeSource]
	processes watching[processSource]
	servers   watching[rpcSource]
	worlds    watching[worldSource]
	hosts     watching[streamSource]
	daemons   watching[daemonSource]
	tuns      watching[tunSource]

	mu   sync.Mutex
	comm commSource
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector that watches nothing yet.
func NewCollector(cfg *Config) *Collector {
	if cfg == nil {
		cfg = &Config{}
	}
	c := &Collector{exporter: newExporter(cfg.Labels, tables...), maxVIs: cfg.MaxVIs}
	if c.maxVIs <= 0 {
		c.maxVIs = defaultMaxVIs
	}
	return c
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch, c.maxVIs, false) }

// collect is Collect with at most maxVIs separate VIs per NIC. forAgent omits the NICs that the
// agent queries directly.
func (c *Collector) collect(ch chan<- prometheus.Metric, maxVIs int, forAgent bool) {
	for _, n := range c.nics.list() {
		if forAgent && leased(n.it) {
			continue
		}
		s := n.it.Snapshot()
		labels := c.nics.distinct(n, s.Attributes.Name, strconv.Itoa(int(s.Attributes.Addr.Port)))
		c.collectNIC(ch, &s, labels, maxVIs)
		if x, ok := n.it.(sealer); ok {
			if s, sealed := x.SealStats(); sealed {
				c.emit(ch, sealTable, &s, labels...)
			}
		}
	}
	if comm := c.rankComm(); comm != nil {
		c.emit(ch, rankTable, &rankState{comm.Snapshot(), comm.Pending()})
	}
	emitAll(c.exporter, ch, &c.nodes, nodeTable, nodeSource.Stats, func(n nodeSource, _ *endpoint.Stats) []string { return []string{n.Addr().String()} })
	emitAll(c.exporter, ch, &c.processes, processTable, processSource.Snapshot, func(_ processSource, s *vmmc.Snapshot) []string {
		return []string{fmt.Sprintf("%v/%d", s.Self.Node, s.Self.Process)}
	})
	emitAll(c.exporter, ch, &c.worlds, worldTable, worldSource.Snapshot, func(_ worldSource, s *splitc.Snapshot) []string { return []string{s.Layer, strconv.Itoa(s.Proc)} })
	emitAll(c.exporter, ch, &c.hosts, streamTable, streamSource.Snapshot, func(_ streamSource, s *stream.Snapshot) []string { return []string{s.Addr.String()} })
	emitAll(c.exporter, ch, &c.daemons, daemonTable, daemonSource.Snapshot, func(_ daemonSource, s *daemon.Snapshot) []string { return []string{s.Node.String()} })
	emitAll(c.exporter, ch, &c.tuns, tunTable, tunSource.Snapshot, func(_ tunSource, s *tun.Snapshot) []string { return []string{s.Device} })
	for _, x := range c.servers.list() {
		s := x.it.Snapshot()
		c.collectServer(ch, &s, c.servers.distinct(x, "rpc"))
	}
	for _, x := range c.cards.list() {
		s := x.it.state()
		c.collectCard(ch, &s, c.cards.distinct(x, s.Card.Name))
	}
}

// collectNIC exports a NIC, with at most maxVIs separate VIs.
func (c *Collector) collectNIC(ch chan<- prometheus.Metric, s *vipl.Snapshot, labels []string, maxVIs int) {
	c.emit(ch, nicTable, s, labels...)
	a := &s.Attributes
	c.info(ch, nicInfo, labels, a.Addr.MAC.String(), a.Driver, fmt.Sprintf("%016x", a.Incarnation))
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
		vi := append(labels[:2:2], strconv.Itoa(int(v.Local.Port)))
		c.emit(ch, viTable, v, vi...)
		remote := ""
		if v.State != vipl.StateIdle {
			remote = v.Remote.String()
		}
		c.info(ch, viInfo, vi, remote, v.Level.String(), v.State.String())
	}
	if len(s.VIs) > maxVIs || s.Rest != nil {
		c.emit(ch, viTable, &rest, append(labels[:2:2], "other")...)
	}
}

// info exports a metric whose information is in its labels.
func (c *Collector) info(ch chan<- prometheus.Metric, t *table, labels []string, more ...string) {
	ch <- prometheus.MustNewConstMetric(c.descs[t.metrics[0].name], prometheus.GaugeValue, 1, append(labels[:len(labels):len(labels)], more...)...)
}

// maxPrograms is how many program versions of a server have separate time series.
const maxPrograms = 32

func (c *Collector) collectServer(ch chan<- prometheus.Metric, s *vrpc.Snapshot, server []string) {
	c.emit(ch, rpcTable, s, server...)
	var rest vrpc.ProgramSnapshot
	for i := range s.Programs {
		p := &s.Programs[i]
		if i < maxPrograms {
			c.emit(ch, callTable, p, server[0], strconv.Itoa(int(p.Program)), strconv.Itoa(int(p.Version)))
		} else {
			counters.Add(&rest, p)
		}
	}
	if len(s.Programs) > maxPrograms {
		c.emit(ch, callTable, &rest, server[0], "other", "")
	}
}

func (c *Collector) collectCard(ch chan<- prometheus.Metric, s *cardState, card []string) {
	c.emit(ch, cardTable, s.Snapshot, card...)
	c.emit(ch, s.table, s.whole, card...)
	if s.Mapper != nil {
		c.emit(ch, mapperTable, s.Mapper, card...)
		if s.Mapper.Map != nil {
			c.emit(ch, mapTable, s.Mapper.Map, card...)
		}
	}
}

// Instrument makes all objects that c watches observable until stop is called. It calls DumpOnQuit
// for standard error, AnswerAgent and, unless addr is empty, Serve at addr.
func (c *Collector) Instrument(addr string) (stop func(), err error) {
	var server *Server
	if addr != "" {
		if server, err = Serve(addr, c); err != nil {
			return nil, err
		}
	}
	dumps, answers := c.DumpOnQuit(os.Stderr), c.AnswerAgent()
	return func() {
		answers()
		dumps()
		if server != nil {
			server.Close()
		}
	}, nil
}
