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

const agentLong = `Open packet sockets for the programs of this node that lack CAP_NET_RAW, until
interrupted. A program of a user or group that the policy lets in gets sockets whose filter
is locked to ports of its own, and the kernel (nftables) drops what it sends by them from
other ports, addresses or interfaces. Users and groups that are not in /etc/passwd or
/etc/group, such as those of LDAP, are given by number: group:1234. Programs find the agent
by themselves, at
` + agent.DefaultPath + ` or where $` + agent.EnvPath + ` says.

No frame passes the agent. Its end changes nothing for programs that run: the sockets are
theirs, and they connect to the next agent by themselves. docs/security.md says what a
program can do with such sockets, and what it cannot.

--metrics ADDR serves the metrics and the dumps of all programs of this node that tell the
agent, as all that are part of Bobnet do, with its sockets or with their own, if the policy
lets their user in; SIGQUIT (Ctrl-\) prints the dumps.
It takes CAP_NET_RAW and CAP_NET_ADMIN, and Linux 5.16.`

// maxBlocks is the most that --blocks takes: more than all interfaces of a host have.
const maxBlocks = 1 << 16

func newAgentCmd() *cobra.Command {
	var cfg nodeagent.Config
	var allow, policy, addr, types string
	cmd := &cobra.Command{
		Use:   "agent --allow user:NAME,group:NAME [flags]",
		Short: "Open packet sockets for programs of this node without CAP_NET_RAW",
		Long:  agentLong,
		Args:  usage(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (allow == "") == (policy == "") {
				return usageError{errors.New("say who gets sockets, either by --allow user:NAME,group:NAME or by --policy FILE")}
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
	f.Var(text(&allow, "", func(who string) error { _, err := nodeagent.ParsePolicy(who); return bare(err, "node agent: ") }), "allow", "`who` gets sockets, besides root: user:NAME and group:NAME with commas between them, or all")
	f.Var(input(&policy), "policy", "`file` with such entries, which is read for each request")
	f.Var(text(&cfg.Path, agent.DefaultPath, most(maxSocket)), "socket", "`path` of the Unix socket")
	f.Var(interfaces(&cfg.Interfaces), "interfaces", "`names` of the interfaces to serve, with commas between them; by default all")
	f.Var(text(&types, fmt.Sprintf("%#04x", uint16(ethertype.Default)), func(list string) error { _, err := nodeagent.ParseEtherTypes(list); return bare(err, "node agent: ") }), "ethertypes", "`numbers` of the EtherTypes that programs may use, with commas between them; those of IP and the like are refused")
	f.Var(number(&cfg.MaxBlocks, nodeagent.DefaultMaxBlocks, 1, maxBlocks), "blocks", "`number` of blocks of 1024 ports that a user may have, one for each NIC")
	f.BoolVar(&cfg.Unguarded, "unguarded", false, "do not let the kernel judge what programs send: they may send anything, have long frames, and each frame costs less")
	f.Var(listenAt(&addr), "metrics", "serve the metrics of all programs that tell the agent on this `address` (:port is localhost's): /metrics, and /debug/bobnet for people")
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
	"1 if a program reports its metrics in time, otherwise 0. With interface and port it is for a link with sockets of the agent, without them for the whole program.",
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

// answer is what a program said, as a whole or of a link: that has a Snapshot as a NIC has
type answer struct {
	program  *nodeagent.Program
	snapshot vipl.Snapshot       // of a link
	said     []*dto.MetricFamily // of a program, asked for metrics
	dump     []byte              // of a program, asked for a dump
	err      error
}

// Snapshot returns it for metrics.Collector.WatchNIC.
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

// Bounds on what the answers of all programs of one user take, when all are asked once.
const (
	agentUserOctets = 4 << 20
	agentUserSeries = 32_000
)

// budget is what is left of these bounds. Root's programs have none.
type budget struct {
	mu             sync.Mutex
	octets, series map[uint32]int // used, by user
	reading        sync.Mutex     // held while an answer is taken apart, which takes more memory than what is left of it
}

func newBudget() *budget {
	return &budget{octets: map[uint32]int{}, series: map[uint32]int{}}
}

// take notes that a program's answer takes so many octets.
func (b *budget) take(p *nodeagent.Program, octets int) error {
	return b.use(b.octets, p, octets, agentUserOctets, "octets")
}

// takeSeries notes how many series a program's answer has.
func (b *budget) takeSeries(p *nodeagent.Program, said []*dto.MetricFamily) error {
	n := 0
	for _, f := range said {
		n += len(f.Metric)
	}
	return b.use(b.series, p, n, agentUserSeries, "series")
}

// use notes that of something more is used, unless it is too much.
func (b *budget) use(used map[uint32]int, p *nodeagent.Program, more, most int, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.UID != 0 && used[p.UID]+more > most {
		return fmt.Errorf("%v: left out: with its answer those of user %d would have %d %s, more than %d", p, p.UID, used[p.UID]+more, what, most)
	}
	used[p.UID] += more
	return nil
}

// viOctets is fewer than a VI's state has as JSON, whatever it is.
const viOctets = 256

// readSnapshot reads what a link says, which takes a small multiple of it in memory, also if it
// is made to take more.
func readSnapshot(body []byte) (vipl.Snapshot, error) {
	var s struct {
		vipl.Snapshot
		VIs fewVIs // in the place of the other
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

var errTooMany = fmt.Errorf("it lists more than a NIC has: more VIs than one for %d octets, or more than %d sends of one", viOctets, vipl.PendingMax)

// fewVIs are the VIs of a snapshot, if there are not more than it has octets for.
type fewVIs []vipl.VISnapshot

// UnmarshalJSON implements json.Unmarshaler.
func (few *fewVIs) UnmarshalJSON(body []byte) error {
	*few = nil
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return err // null, or what are no VIs
	}
	for d.More() {
		var v vipl.VISnapshot
		switch err := d.Decode(&v); {
		case err != nil:
			return err
		case len(v.Pending) > vipl.PendingMax, (len(*few)+1)*viOctets > len(body):
			return errTooMany
		}
		*few = append(*few, v)
	}
	return nil
}
