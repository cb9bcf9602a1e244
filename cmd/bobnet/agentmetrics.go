package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Bounds on what one link of a program adds to the metrics of the node.
const (
	agentMaxVIs    = 8  // VIs with series of their own
	agentMaxDriver = 64 // octets of the driver's name
)

// agentHandler serves the metrics of an agent's programs, and for people what they say of
// themselves. What one program says that makes no sense is left out, and the others' is not.
func agentHandler(s *nodeagent.Server) http.Handler {
	mux := http.NewServeMux()
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gatherAll(s) })
	mux.Handle("/metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("/debug/bobnet", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		writeAgentDump(w, s) // if it fails the client is gone
	})
	return mux
}

var agentProgram = prometheus.NewDesc("bobnet_agent_program_answers",
	"Whether a program says how it is, in time: 1 or 0. With an interface and a port it is a link that has the agent's sockets, without it is the program as a whole.",
	[]string{"program", "pid", "uid", "interface", "port"}, nil)

// gatherAll asks all programs, and puts together what they say. The error says what was left
// out: series that are there twice.
func gatherAll(s *nodeagent.Server) ([]*dto.MetricFamily, error) {
	all := askAll(s, agent.Metrics)
	registry := prometheus.NewRegistry()
	if err := registry.Register(linkCollector(all)); err != nil {
		return nil, err
	}
	gatherers := prometheus.Gatherers{registry}
	for _, a := range all {
		gatherers = append(gatherers, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return a.said, nil }))
	}
	return gatherers.Gather()
}

// linkCollector exports which programs answer, and what their links say.
type linkCollector []*answer

// Describe implements prometheus.Collector. It describes nothing, because the labels are the
// programs'.
func (linkCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (all linkCollector) Collect(ch chan<- prometheus.Metric) {
	for _, a := range all {
		p, up, who := a.program, 0.0, whose(a.program)
		if a.err == nil {
			up = 1
		}
		if a.err == nil && !p.Tells {
			each := metrics.NewCollector(&metrics.Config{MaxVIs: agentMaxVIs, Labels: who})
			each.WatchNIC(a)
			each.Collect(ch)
		}
		port := ""
		if !p.Tells {
			port = strconv.Itoa(int(p.Ports.Lo))
		}
		ch <- prometheus.MustNewConstMetric(agentProgram, prometheus.GaugeValue, up, who["program"], who["pid"], who["uid"], p.Interface, port)
	}
}

// whose returns the labels that name a program.
func whose(p *nodeagent.Program) prometheus.Labels {
	return prometheus.Labels{"program": p.Name, "pid": p.ID(), "uid": strconv.FormatUint(uint64(p.UID), 10)}
}

// answer is what a program said, as a whole or of a link: that is a metrics.NIC.
type answer struct {
	program  *nodeagent.Program
	snapshot vipl.Snapshot       // of a link
	said     []*dto.MetricFamily // of a program, asked for metrics
	dump     []byte              // of a program, asked for a dump
	err      error
}

// Snapshot implements metrics.NIC.
func (a *answer) Snapshot() vipl.Snapshot { return a.snapshot }

// askAll asks all programs for metrics or dumps at the same time, and their links for snapshots.
func askAll(s *nodeagent.Server, what string) []*answer {
	var all []*answer
	var wg sync.WaitGroup
	b := newBudget()
	for _, p := range s.Programs() {
		a := &answer{program: p}
		all = append(all, a)
		wg.Go(func() {
			if p.Tells {
				a.askProgram(what, b)
			} else {
				a.askLink(b)
			}
		})
	}
	wg.Wait()
	return all
}

// ask asks a program, and notes what the answer takes.
func (a *answer) ask(what string, b *budget) ([]byte, error) {
	body, err := a.program.Ask(what)
	if err == nil {
		err = b.take(a.program, len(body))
	}
	return body, err
}

// askProgram asks a program.
func (a *answer) askProgram(what string, b *budget) {
	text, err := a.ask(what, b)
	switch {
	case err != nil:
		a.err = err
	case len(text) == 0:
		a.err = fmt.Errorf("%v: %w", a.program, errAnswerless)
	case what == agent.Metrics:
		b.reading.Lock()
		defer b.reading.Unlock()
		said, err := metrics.Said(text, whose(a.program))
		if err != nil {
			a.err = fmt.Errorf("%v: %w", a.program, err)
		} else if a.err = b.takeSeries(a.program, said); a.err == nil {
			a.said = said
		}
	default:
		a.dump = text
	}
}

// errAnswerless is of a program that answers, and cannot say what was asked.
var errAnswerless = errors.New("it cannot say how it is: somebody holds a lock for long, or it is too much")

// askLink asks a link for a snapshot. What the agent knows better it does not take from it.
func (a *answer) askLink(b *budget) {
	body, err := a.ask(agent.Snapshot, b)
	if err != nil {
		a.err = err
		return
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if a.snapshot, err = readSnapshot(body); err != nil {
		a.err = fmt.Errorf("%v: %w", a.program, err)
		return
	}
	attributes := &a.snapshot.Attributes
	attributes.Name, attributes.Ports, attributes.Addr.Port = a.program.Interface, a.program.Ports, a.program.Ports.Lo
	attributes.Driver = strings.ToValidUTF8(attributes.Driver[:min(len(attributes.Driver), agentMaxDriver)], "_")
}

// writeAgentDump writes what each program says of itself and of its NICs. Characters that would
// control a terminal are left out.
func writeAgentDump(w io.Writer, s *nodeagent.Server) error {
	var text strings.Builder
	all := askAll(s, agent.Dump)
	programs := 0
	for _, a := range all {
		if a.program.Tells {
			programs++
		}
	}
	fmt.Fprintf(&text, "bobnet agent: %d programs tell how they are, %d NICs have its sockets\n", programs, len(all)-programs)
	for _, a := range all {
		switch {
		case a.err != nil:
			fmt.Fprintf(&text, "\n%v\n", a.err)
		case a.program.Tells:
			fmt.Fprintf(&text, "\n%v\n%s", a.program, indent(string(a.dump)))
		default:
			var nic strings.Builder
			a.snapshot.WriteTo(&nic) // a builder takes everything
			fmt.Fprintf(&text, "\n%v\n%s", a.program, indent(nic.String()))
		}
	}
	_, err := io.WriteString(w, strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text.String()))
	return err
}

// indent has lines begin so that none can be taken for what the agent says.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
