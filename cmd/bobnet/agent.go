package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"
)

const agentLong = `Open packet sockets for programs of this node that lack CAP_NET_RAW, until interrupted. The
policy lists the permitted users and groups. A program gets sockets whose receive filter is
locked to its own ports. The kernel (nftables) drops frames that it sends from other
ports, addresses or interfaces. Programs find the agent automatically, at
` + agent.DefaultPath + ` or at the path in $` + agent.EnvPath + `. Give users and groups that are not
in /etc/passwd or /etc/group, such as those of LDAP, by number: group:1234.

Frames do not pass through the agent, and the agent can be restarted at any time: running
programs keep their sockets, and connect to the next agent. docs/security.md describes what a
program can do with such sockets.

--metrics ADDR serves the metrics and state dumps of all programs of this node that report to
the agent. Bobnet's own programs report to the agent if the policy allows their user,
whether their sockets come from the agent or not. SIGQUIT (Ctrl-\) prints the dumps.

The agent needs CAP_NET_RAW, CAP_NET_ADMIN and Linux 5.16.`

// maxBlocks is the largest value of --blocks: more than all interfaces of a host have.
const maxBlocks = 1 << 16

func newAgentCmd() *cobra.Command {
	var cfg nodeagent.Config
	var allow, policy, addr, types string
	cmd := &cobra.Command{
		Use:   "agent --allow user:NAME,group:NAME [flags]",
		Short: "Open packet sockets for programs without CAP_NET_RAW",
		Long:  agentLong,
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (allow == "") == (policy == "") {
				return usageError{errors.New("agent: missing policy: want either --allow user:NAME,group:NAME or --policy FILE")}
			}
			cfg.Policy = func() (nodeagent.Policy, error) { return nodeagent.ReadPolicy(policy) }
			if policy != "" {
				if _, err := nodeagent.ReadPolicy(policy); err != nil {
					return usageError{err}
				}
			}
			if allow != "" {
				who, err := nodeagent.ParsePolicy(allow)
				if err != nil {
					return usageError{err}
				}
				cfg.Policy = func() (nodeagent.Policy, error) { return who, nil }
			}
			var err error
			if cfg.EtherTypes, err = nodeagent.ParseEtherTypes(types); err != nil {
				return usageError{err}
			}
			cfg.Logger = slog.Default()
			return runAgent(cmd, cfg, addr)
		},
	}
	f := cmd.Flags()
	f.Var(text(&allow, "", func(who string) error { _, err := nodeagent.ParsePolicy(who); return bare(err, "node agent: ") }), "allow", "comma-separated `users` and groups that get sockets, in addition to root: user:NAME, group:NAME, or all")
	f.Var(input(&policy), "policy", "`file` with entries as for --allow; it is read for each request")
	f.Var(text(&cfg.Path, agent.DefaultPath, most(maxSocket)), "socket", "`path` of the Unix socket")
	f.Var(interfaces(&cfg.Interfaces), "interfaces", "comma-separated `names` of the interfaces to serve; by default all")
	f.Var(text(&types, fmt.Sprintf("%#04x", uint16(ethertype.Default)), func(list string) error { _, err := nodeagent.ParseEtherTypes(list); return bare(err, "node agent: ") }), "ethertypes", "comma-separated `numbers` of the EtherTypes that programs may use; those of other protocols, such as IP, are refused")
	f.Var(number(&cfg.MaxBlocks, nodeagent.DefaultMaxBlocks, 1, maxBlocks), "blocks", "maximum `number` of blocks of 1024 ports for a user; each NIC needs one")
	f.BoolVar(&cfg.Unguarded, "unguarded", false, "do not check what programs send: they may send anything, including long frames, at less cost per frame")
	f.Var(listenAt(&addr), "metrics", "serve the metrics of all programs that report to the agent on this `address` (:port means localhost): /metrics, and readable status at /debug/bobnet")
	return cmd
}

// runAgent serves until the command is interrupted.
func runAgent(cmd *cobra.Command, cfg nodeagent.Config, addr string) error {
	server, err := nodeagent.Listen(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	if addr != "" {
		web, err := metrics.ServeHandler(addr, agentHandler(server))
		if err != nil {
			return err
		}
		defer web.Close()
		slog.Info("serving metrics", "at", fmt.Sprintf("http://%s/metrics", web.Addr()))
	}
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	defer signal.Stop(quit)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() {
		for {
			select {
			case <-quit:
				writeAgentDump(os.Stderr, server)
			case <-ctx.Done():
				return
			}
		}
	}()
	fmt.Fprintf(cmd.OutOrStdout(), "agent at %s\n", cfg.Path)
	return errors.Join(server.Serve(ctx), context.Cause(cmd.Context()))
}

// Limits for one link of a program in the node's metrics.
const (
	agentMaxVIs    = 8  // VIs with their own series
	agentMaxDriver = 64 // bytes of the driver's name
)

// agentHandler serves the metrics and state dumps of an agent's programs. It leaves out invalid
// metrics of one program without affecting the others.
func agentHandler(s *nodeagent.Server) http.Handler {
	mux := http.NewServeMux()
	gather := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gatherAll(s) })
	mux.Handle("/metrics", promhttp.HandlerFor(gather, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("/debug/bobnet", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		writeAgentDump(w, s) // an error means that the client is gone
	})
	return mux
}

var agentProgram = prometheus.NewDesc("bobnet_agent_program_answers",
	"1 if a program reports its metrics in time, otherwise 0. With interface and port it is for a link with sockets of the agent, without them for the whole program.",
	[]string{"program", "pid", "uid", "interface", "port"}, nil)

// gatherAll collects the metrics of all programs. The error lists duplicate series, which it leaves
// out.
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

// linkCollector exports which programs answer, and the metrics of their links.
type linkCollector []*answer

// Describe implements prometheus.Collector. It describes nothing, because the labels depend on the
// programs.
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

// answer is the response of a program, or of one of its links. For a link it has a Snapshot, like a
// NIC.
type answer struct {
	program  *nodeagent.Program
	snapshot vipl.Snapshot       // of a link
	said     []*dto.MetricFamily // of a program, if metrics were requested
	dump     []byte              // of a program, if a dump was requested
	err      error
}

// Snapshot returns the snapshot for metrics.Collector.WatchNIC.
func (a *answer) Snapshot() vipl.Snapshot { return a.snapshot }

// askAll requests metrics or dumps from all programs concurrently, and snapshots from their links.
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

// ask sends a request to a program, and charges the response to the budget.
func (a *answer) ask(what string, b *budget) ([]byte, error) {
	body, err := a.program.Ask(what)
	if err == nil {
		err = b.charge(a.program, len(body))
	}
	return body, err
}

// askProgram requests metrics or a dump from a program.
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

// errAnswerless is the error for an empty response.
var errAnswerless = errors.New("snapshot unavailable: lock held too long or reply too large")

// askLink requests a snapshot from a link. It replaces the fields that the agent knows itself.
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

// writeAgentDump writes the state of each program and of its NICs. It leaves out control
// characters, which could affect a terminal.
func writeAgentDump(w io.Writer, s *nodeagent.Server) error {
	var text strings.Builder
	all := askAll(s, agent.Dump)
	programs := 0
	for _, a := range all {
		if a.program.Tells {
			programs++
		}
	}
	fmt.Fprintf(&text, "bobnet agent: %d programs report their state, %d NICs use its sockets\n", programs, len(all)-programs)
	for _, a := range all {
		switch {
		case a.err != nil:
			fmt.Fprintf(&text, "\n%v\n", a.err)
		case a.program.Tells:
			fmt.Fprintf(&text, "\n%v\n%s", a.program, indent(string(a.dump)))
		default:
			var nic strings.Builder
			a.snapshot.WriteTo(&nic) // a builder returns no error
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

// indent indents all lines, so that none can pass for a line of the agent.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// Limits for the responses of all programs of one user to one request.
const (
	agentUserBytes  = 4 << 20
	agentUserSeries = 32_000
)

// budget counts how much of these limits is used. Root's programs have no limit.
type budget struct {
	mu            sync.Mutex
	bytes, series map[uint32]int // used, by user
	reading       sync.Mutex     // held while a response is parsed, because parsing needs more memory than its result
}

func newBudget() *budget {
	return &budget{bytes: map[uint32]int{}, series: map[uint32]int{}}
}

// charge counts the bytes of a program's response.
func (b *budget) charge(p *nodeagent.Program, size int) error {
	return b.use(b.bytes, p, size, agentUserBytes, "bytes")
}

// takeSeries charges the series of a program's response.
func (b *budget) takeSeries(p *nodeagent.Program, said []*dto.MetricFamily) error {
	n := 0
	for _, f := range said {
		n += len(f.Metric)
	}
	return b.use(b.series, p, n, agentUserSeries, "series")
}

// use charges more to the program's user, or returns an error if that exceeds most.
func (b *budget) use(used map[uint32]int, p *nodeagent.Program, more, most int, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.UID != 0 && used[p.UID]+more > most {
		return fmt.Errorf("%v: left out: the responses of user %d would have %d %s, more than %d", p, p.UID, used[p.UID]+more, what, most)
	}
	used[p.UID] += more
	return nil
}

// viBytes is a lower bound of the size of a VI's state as JSON.
const viBytes = 256

// readSnapshot parses the snapshot of a link. It needs memory in proportion to the length of body,
// even if body is hostile.
func readSnapshot(body []byte) (vipl.Snapshot, error) {
	var s struct {
		vipl.Snapshot
		VIs fewVIs // shadows Snapshot.VIs
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return vipl.Snapshot{}, err
	}
	s.Snapshot.VIs = s.VIs
	if rest := s.Rest; rest != nil && len(rest.Pending) > vipl.PendingMax {
		return vipl.Snapshot{}, errTooMany
	}
	return s.Snapshot, nil
}

var errTooMany = fmt.Errorf("invalid snapshot: more than one VI for %d bytes, or more than %d sends of one VI", viBytes, vipl.PendingMax)

// fewVIs lists the VIs of a snapshot. It rejects more VIs than the snapshot has bytes for.
type fewVIs []vipl.VISnapshot

// UnmarshalJSON implements json.Unmarshaler.
func (few *fewVIs) UnmarshalJSON(body []byte) error {
	*few = nil
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return err // null, or not a list
	}
	for d.More() {
		var v vipl.VISnapshot
		switch err := d.Decode(&v); {
		case err != nil:
			return err
		case len(v.Pending) > vipl.PendingMax, (len(*few)+1)*viBytes > len(body):
			return errTooMany
		}
		*few = append(*few, v)
	}
	return nil
}
