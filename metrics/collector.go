package metrics

import (
	"strconv"
	"sync"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxVIs is the default of Config.MaxVIs.
const DefaultMaxVIs = 64

// Config adjusts a Collector; nil means the defaults.
type Config struct {
	// MaxVIs is how many VIs of a NIC have time series of their own; 0 means
	// DefaultMaxVIs. The others are added up.
	MaxVIs int
	// Labels are added to every metric, for example the rank.
	Labels prometheus.Labels
}

// NIC is what the Collector asks of a NIC; *vipl.NIC has it.
type NIC interface{ Snapshot() vipl.Snapshot }

// Comm is what the Collector asks of a communicator; *mplite.Comm has it.
type Comm interface{ Snapshot() mplite.Stats }

// Collector is a prometheus.Collector over any number of NICs and a rank. It
// may be shared between goroutines. The zero Collector is not usable.
type Collector struct {
	maxVIs int
	nic    []*prometheus.Desc // as nicFields
	vi     []*prometheus.Desc // as viFields
	rank   []*prometheus.Desc // as rankFields
	info   *prometheus.Desc
	drops  *prometheus.Desc
	lost   *prometheus.Desc

	mu   sync.Mutex
	nics map[NIC]bool
	comm Comm
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a Collector that watches nothing yet.
func NewCollector(cfg *Config) *Collector {
	if cfg == nil {
		cfg = &Config{}
	}
	c := &Collector{maxVIs: cfg.MaxVIs, nics: map[NIC]bool{}}
	if c.maxVIs <= 0 {
		c.maxVIs = DefaultMaxVIs
	}
	c.nic = describe(nicFields, cfg.Labels, "interface", "port")
	c.vi = describe(viFields, cfg.Labels, "interface", "port", "vi")
	c.rank = describe(rankFields, cfg.Labels)
	c.info = prometheus.NewDesc("bobnet_vi_info", "Always 1; the labels say what the VI is.",
		[]string{"interface", "port", "vi", "remote", "level", "state"}, cfg.Labels)
	c.drops = prometheus.NewDesc("bobnet_nic_receive_dropped_frames_total", "Frames that arrived and were not used, by reason.",
		[]string{"interface", "port", "reason"}, cfg.Labels)
	c.lost = prometheus.NewDesc("bobnet_link_dropped_frames_total", "Frames that the link lost, by reason.",
		[]string{"interface", "port", "reason"}, cfg.Labels)
	return c
}

func describe[S any](fields []field[S], constant prometheus.Labels, labels ...string) []*prometheus.Desc {
	descs := make([]*prometheus.Desc, len(fields))
	for i, f := range fields {
		descs[i] = prometheus.NewDesc(f.name, f.help, labels, constant)
	}
	return descs
}

// WatchNIC adds a NIC to what is exported; call the result when it closes.
func (c *Collector) WatchNIC(n NIC) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nics[n] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.nics, n)
	}
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

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, descs := range [][]*prometheus.Desc{c.nic, c.vi, c.rank, {c.info, c.drops, c.lost}} {
		for _, d := range descs {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.nics {
		s := n.Snapshot()
		c.collectNIC(ch, &s)
	}
	if c.comm != nil {
		s := c.comm.Snapshot()
		emit(ch, c.rank, rankFields, &s)
	}
}

func emit[S any](ch chan<- prometheus.Metric, descs []*prometheus.Desc, fields []field[S], s *S, labels ...string) {
	for i := range fields {
		f := &fields[i]
		ch <- prometheus.MustNewConstMetric(descs[i], f.kind(), f.value(s), labels...)
	}
}

func (c *Collector) collectNIC(ch chan<- prometheus.Metric, s *vipl.Snapshot) {
	name, port := s.Attributes.Name, strconv.Itoa(int(s.Attributes.Addr.Port))
	emit(ch, c.nic, nicFields, s, name, port)
	for _, why := range vipl.Drops() {
		ch <- prometheus.MustNewConstMetric(c.drops, prometheus.CounterValue, float64(s.Dropped[why]), name, port, why.String())
	}
	for i := range linkDrops {
		ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, linkDrops[i].value(s), name, port, linkDrops[i].name)
	}
	var rest vipl.VISnapshot
	for i := range s.VIs {
		v := &s.VIs[i]
		if i >= c.maxVIs {
			rest.Add(v)
			continue
		}
		vi := strconv.Itoa(int(v.Local.Port))
		emit(ch, c.vi, viFields, v, name, port, vi)
		remote := ""
		if v.State != vipl.StateIdle {
			remote = v.Remote.String()
		}
		ch <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, name, port, vi, remote, v.Level.String(), v.State.String())
	}
	if len(s.VIs) > c.maxVIs {
		emit(ch, c.vi, viFields, &rest, name, port, "other")
	}
}
