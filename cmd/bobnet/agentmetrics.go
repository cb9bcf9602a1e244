package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/agent"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on what one program adds to the metrics of the node.
const (
	agentMaxVIs    = 8  // VIs with series of their own
	agentMaxDriver = 64 // octets of the driver's name
)

// agentHandler serves the metrics of an agent's programs, and for people what they say of
// themselves. What one program says that makes no sense is left out, and the others' is not.
func agentHandler(s *nodeagent.Server) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(agentCollector{s})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("/debug/bobnet", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		writeAgentDump(w, s) // if it fails the client is gone
	})
	return mux
}

// agentCollector asks an agent's programs at each scrape.
type agentCollector struct{ server *nodeagent.Server }

var agentProgram = prometheus.NewDesc("bobnet_agent_program_answers",
	"Whether a link of a program that has the agent's sockets says how it is, in time: 1 or 0.", []string{"program", "pid", "uid", "interface", "port"}, nil)

// Describe implements prometheus.Collector. It describes nothing, because the labels are the
// programs'.
func (agentCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c agentCollector) Collect(ch chan<- prometheus.Metric) {
	for _, a := range askAll(c.server) {
		p, up := a.program, 0.0
		pid, uid := strconv.Itoa(p.PID), strconv.FormatUint(uint64(p.UID), 10)
		if a.err == nil {
			up = 1
			each := metrics.NewCollector(&metrics.Config{MaxVIs: agentMaxVIs, Labels: prometheus.Labels{"program": p.Name, "pid": pid, "uid": uid}})
			each.WatchNIC(a)
			each.Collect(ch)
		}
		ch <- prometheus.MustNewConstMetric(agentProgram, prometheus.GaugeValue, up, p.Name, pid, uid, p.Interface, strconv.Itoa(int(p.Ports.Lo)))
	}
}

// answer is what a program said; it is a metrics.NIC.
type answer struct {
	program  *nodeagent.Program
	snapshot vipl.Snapshot
	err      error
}

// Snapshot implements metrics.NIC.
func (a *answer) Snapshot() vipl.Snapshot { return a.snapshot }

// askAll asks all programs at the same time.
func askAll(s *nodeagent.Server) []*answer {
	var all []*answer
	var wg sync.WaitGroup
	for _, p := range s.Programs() {
		a := &answer{program: p}
		all = append(all, a)
		wg.Go(a.ask)
	}
	wg.Wait()
	return all
}

// ask asks the program. What the agent knows better it does not take from it.
func (a *answer) ask() {
	body, err := a.program.Ask(agent.Snapshot)
	if err == nil {
		err = json.Unmarshal(body, &a.snapshot)
	}
	if err != nil {
		a.err = fmt.Errorf("%v: %w", a.program, err)
		return
	}
	attributes := &a.snapshot.Attributes
	attributes.Name, attributes.Ports, attributes.Addr.Port = a.program.Interface, a.program.Ports, a.program.Ports.Lo
	attributes.Driver = strings.ToValidUTF8(attributes.Driver[:min(len(attributes.Driver), agentMaxDriver)], "_")
}

// writeAgentDump writes what each program says of its NIC. Characters that would control a
// terminal are left out.
func writeAgentDump(w io.Writer, s *nodeagent.Server) error {
	var text strings.Builder
	all := askAll(s)
	fmt.Fprintf(&text, "bobnet agent: %d NICs\n", len(all))
	for _, a := range all {
		if a.err != nil {
			fmt.Fprintf(&text, "\n%v\n", a.err)
			continue
		}
		fmt.Fprintf(&text, "\n%v\n", a.program)
		a.snapshot.WriteTo(&text) // a builder takes everything
	}
	_, err := io.WriteString(w, strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text.String()))
	return err
}
