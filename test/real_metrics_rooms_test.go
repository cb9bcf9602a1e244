package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	endpoints "github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	vmmccard "github.com/bobnet-go/bobnet/vmmc/lanai"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
	"golang.org/x/sys/unix"
)

// What rank 0 of a lab of active messages sends to rank 1, which answers all but
// those that name a handler that it has not.
const (
	amShort, amMedium, amBulk, amRefused = 40, 30, 20, 7

	amAnswered = amShort + amMedium + amBulk
	amBulkSize = 50_000
)

// The handlers.
const (
	hMetricsAsk = 1 + iota
	hMetricsBye
	hMetricsAnswer
	hMetricsNone
)

// checkNode compares counters and rates of a node of active messages, as they are
// after done, with what was sent: rank 0 is the client.
func (p *prometheus) checkNode(t *testing.T, instance string, rank int, done time.Time) {
	t.Helper()
	sent, received := 1., 0.
	if rank == 1 {
		sent, received = 0, 1
	}
	for _, m := range []struct {
		name, reason string
		want         float64
	}{
		{"requests_sent", "", sent * (amAnswered + amRefused)},
		{"reply_handlers", "", sent * amAnswered},
		{"refusals_heard", "", sent * amRefused},
		{"returned_messages", "bad_handler", sent * amRefused},
		{"returned_messages", "unreachable", 0},
		{"request_handlers", "", received * amAnswered},
		{"refused_messages", "bad_handler", received * amRefused},
		{"refused_messages", "bad_tag", 0},
		{"broken_connections", "", 0},
		{"stray_messages", "", 0},
		{"violations", "", 0},
		{"handler_panics", "", 0},
	} {
		labels := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
		if m.reason != "" {
			labels += fmt.Sprintf(`,reason="%s"`, m.reason)
		}
		p.checkCounter(t, fmt.Sprintf("bobnet_am_%s_total{%s}", m.name, labels), m.want, done)
	}
}

// movedMetrics have not stayed what they were.
var movedMetrics = []string{
	"am_requests_sent_total", "am_request_handlers_total", "am_reply_handlers_total", "am_returned_messages_total", "am_refused_messages_total", "am_refusals_heard_total",
	"vmmc_written_bytes_total", "vmmc_notifications_sent_total", "vmmc_handlers_total", "vmmc_refused_total", "rpc_calls_total", "daemon_processes",
}

// moves reports whether an expression is of one of them.
func moves(expr string) bool {
	for _, name := range movedMetrics {
		if strings.Contains(expr, "bobnet_"+name+"{") {
			return true
		}
	}
	return false
}

// messagesMetricsRole is a rank that serves metrics of a node of active messages.
func messagesMetricsRole(ctx context.Context) error {
	node, err := endpoint.Open(ctx, &endpoint.Config{Interface: config().Interface})
	if err != nil {
		return err
	}
	defer node.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(node.NIC())
	return serveMessages(ctx, node, collector)
}

// serveMessages sends or answers on a node.
func serveMessages(ctx context.Context, node *endpoint.Node, collector *metrics.Collector) error {
	collector.WatchNode(node)
	stop, err := serveMetrics(collector)
	if err != nil {
		return err
	}
	defer stop()
	bundle, err := node.NewBundle(endpoint.Sequential)
	if err != nil {
		return err
	}
	ep, err := bundle.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(endpoint.TagAll)
	if config().Rank == 0 {
		c := &messagesClient{node: node, bundle: bundle, ep: ep}
		return c.run(ctx)
	}
	return answerMessages(ctx, bundle, ep)
}

// answerMessages answers until rank 0 has finished.
func answerMessages(ctx context.Context, bundle *endpoint.Bundle, ep *endpoint.Endpoint) error {
	asked, over := 0, false
	ep.SetSegment(make([]byte, amBulkSize))
	ep.SetHandler(hMetricsAsk, func(t endpoint.Token, _ []uint32, data []byte) {
		asked++
		t.ReplyMedium(hMetricsAnswer, data[:min(len(data), 100)])
	})
	ep.SetHandler(hMetricsBye, func(endpoint.Token, []uint32, []byte) { over = true })
	if err := ep.Publish(serverName); err != nil {
		return err
	}
	for told := false; !over; {
		if _, err := bundle.WaitPoll(ctx); err != nil {
			return err
		}
		if asked == amAnswered && !told {
			told = true
			if err := announce(announcement{Rank: 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// messagesClient is rank 0.
type messagesClient struct {
	node     *endpoint.Node
	bundle   *endpoint.Bundle
	ep       *endpoint.Endpoint
	answered int
	returned int
}

func (c *messagesClient) run(ctx context.Context) error {
	c.ep.SetHandler(hMetricsAnswer, func(endpoint.Token, []uint32, []byte) { c.answered++ })
	c.ep.SetReturnHandler(func(*endpoint.Returned) { c.returned++ })
	server, err := c.node.Find(ctx, serverName)
	if err != nil {
		return err
	}
	if err := c.ep.Map(0, server, endpoint.TagAll); err != nil {
		return err
	}
	if err := awaitTold(); err != nil {
		return err
	}
	if err := c.ask(ctx); err != nil {
		return err
	}
	if err := announceAndStay(announcement{Rank: 0}); err != nil {
		return err
	}
	return c.ep.Request(ctx, 0, hMetricsBye) // closing the node sees it there
}

// ask sends requests of each size, and those that are refused, and waits until
// all have ended.
func (c *messagesClient) ask(ctx context.Context) error {
	for _, m := range []struct {
		times int
		send  func() error
	}{
		{amShort, func() error { return c.ep.Request(ctx, 0, hMetricsAsk, 1, 2, 3) }},
		{amMedium, func() error { return c.ep.RequestMedium(ctx, 0, hMetricsAsk, make([]byte, 1000)) }},
		{amRefused, func() error { return c.ep.RequestMedium(ctx, 0, hMetricsNone, make([]byte, 1000)) }},
		{amBulk, func() error { return c.ep.RequestBulk(ctx, 0, hMetricsAsk, make([]byte, amBulkSize), 0) }},
	} {
		for range m.times {
			if err := m.send(); err != nil {
				return err
			}
		}
	}
	for c.answered+c.returned < amAnswered+amRefused {
		if _, err := c.bundle.WaitPoll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// What rank 0 of a lab of VMMC does: it writes to the memory of rank 1, with a notification each
// time, tries to write past its end, and calls procedures there, some of which there are not. The
// connection for calls is made by one notification more.
const (
	vmmcNotes, vmmcPastEnd = 40, 20
	rpcCalls, rpcNoSuch    = 30, 5

	vmmcMetricsBoard, vmmcMetricsDoor = 1, 100
	vmmcMetricsBoardSize              = 4096
	vmmcMetricsProgram                = 0x20000b0c
	procCount, procGoodbye            = 1, 2
)

// checkProcess compares counters and rates of a process of VMMC, a server of remote procedures
// and a daemon, as they are after done, with what was done.
func (p *prometheus) checkProcess(t *testing.T, instance string, rank int, done time.Time) {
	t.Helper()
	sent, received := 1., 0.
	if rank == 1 {
		sent, received = 0, 1
	}
	type of struct {
		name, labels string
		want         float64
	}
	counters := []of{
		{"vmmc_refused", `,reason="past_end"`, sent * vmmcPastEnd},
		{"vmmc_refused", `,reason="policy"`, 0},
		{"vmmc_notifications_sent", "", sent * (vmmcNotes + 1)},
		{"vmmc_notifications_received", "", received * (vmmcNotes + 1)},
		{"vmmc_handlers", "", received * (vmmcNotes + 1)},
		{"vmmc_broken_connections", "", 0},
		{"daemon_deaths", "", 0},
		{"daemon_refused_processes", "", 0},
	}
	if rank == 1 {
		counters = append(counters, of{"rpc_calls", `,status="success"`, rpcCalls}, of{"rpc_calls", `,status="procedure_unavailable"`, rpcNoSuch},
			of{"rpc_connections", "", 1}, of{"rpc_broken_connections", "", 0})
	}
	job := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
	for _, m := range counters {
		p.checkCounter(t, fmt.Sprintf("bobnet_%s_total{%s%s}", m.name, job, m.labels), m.want, done)
	}
	p.await(t, fmt.Sprintf("bobnet_daemon_processes{%s} == 1", job))
}

// processMetricsRole is a rank that serves metrics of a process of VMMC, of the daemon of its
// node, and rank 1 those of a server of remote procedures.
func processMetricsRole(ctx context.Context) error {
	cfg := config()
	quiet := slog.New(slog.DiscardHandler)
	d, err := daemon.Open(ctx, &daemon.Config{VIPL: vipl.Config{Interface: cfg.Interface}, Logger: quiet})
	if err != nil {
		return err
	}
	defer d.Close()
	go d.Run(ctx)
	p, err := vmmc.Open(ctx, &vmmc.Config{Interface: cfg.Interface, Process: uint32(cfg.Rank), Logger: quiet})
	if err != nil {
		return err
	}
	defer p.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(p.NIC())
	collector.WatchDaemon(d)
	return serveWrites(ctx, p, cfg.Rank, collector)
}

// serveWrites has rank 0 write to rank 1 and call it.
func serveWrites(ctx context.Context, p *vmmc.Process, rank int, collector *metrics.Collector) error {
	collector.WatchProcess(p)
	s := vrpc.NewServer(&vrpc.ServerConfig{Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	if rank == 1 {
		collector.WatchRPC(s)
	}
	stop, err := serveMetrics(collector)
	if err != nil {
		return err
	}
	defer stop()
	if rank == 1 {
		return beWrittenTo(ctx, p, s)
	}
	return writeAndCall(ctx, p)
}

// beWrittenTo exports memory and answers calls until rank 0 says goodbye.
func beWrittenTo(ctx context.Context, p *vmmc.Process, s *vrpc.Server) error {
	var told, counted, goodbye uint32
	if _, err := p.Export(make([]byte, vmmcMetricsBoardSize), vmmcMetricsBoard, vmmc.Everybody, func(vmmc.Notification) { atomic.AddUint32(&told, 1) }); err != nil {
		return err
	}
	count := func(word *uint32) func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
		return func(*vrpc.Call, *xdr.Void, *xdr.Void) error {
			atomic.AddUint32(word, 1)
			p.Wake()
			return nil
		}
	}
	err := s.Register(&vrpc.Program{Number: vmmcMetricsProgram, Version: 1, Procedures: []vrpc.Procedure{
		vrpc.Proc(procCount, "COUNT", count(&counted)), vrpc.Proc(procGoodbye, "GOODBYE", count(&goodbye)),
	}})
	if err == nil {
		_, err = s.ListenVMMC(p, vmmcMetricsDoor, vmmc.Everybody)
	}
	if err == nil {
		err = p.Await(ctx, func() bool {
			return atomic.LoadUint32(&told) == vmmcNotes && atomic.LoadUint32(&counted) == rpcCalls
		})
	}
	if err == nil {
		err = announce(announcement{Rank: 1})
	}
	if err == nil {
		err = p.Await(ctx, func() bool { return atomic.LoadUint32(&goodbye) > 0 })
	}
	return err
}

// writeAndCall is rank 0.
func writeAndCall(ctx context.Context, p *vmmc.Process) error {
	board, err := p.Import(ctx, vmmc.Name{Process: 1, ID: vmmcMetricsBoard})
	if err != nil {
		return err
	}
	if err := awaitTold(); err != nil {
		return err
	}
	note := make([]byte, 100)
	for range vmmcNotes {
		if err := p.SendMsgWithNotify(ctx, note, board.Addr()); err != nil {
			return err
		}
	}
	for range vmmcPastEnd {
		if err := p.SendMsg(ctx, note, board.Addr()+vmmcMetricsBoardSize-1); !errors.Is(err, vmmc.ErrProxy) {
			return fmt.Errorf("a write past the end ends with %w", err)
		}
	}
	owner := board.Owner()
	c, err := vrpc.DialVMMC(ctx, p, vmmc.Name{Node: owner.Node, Process: 1, ID: vmmcMetricsDoor}, vmmcMetricsProgram, 1, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for range rpcNoSuch {
		if err := c.Call(ctx, 99, xdr.Void{}, &xdr.Void{}); !errors.Is(err, vrpc.ProcUnavail) {
			return fmt.Errorf("a call of no procedure ends with %w", err)
		}
	}
	for range rpcCalls {
		if err := c.Call(ctx, procCount, xdr.Void{}, &xdr.Void{}); err != nil {
			return err
		}
	}
	if err := announceAndStay(announcement{Rank: 0}); err != nil {
		return err
	}
	return c.Call(ctx, procGoodbye, xdr.Void{}, &xdr.Void{})
}

// What process 0 of a lab of Split-C stores at process 1, one element at once and the others
// when it is told to.
const storedElements = 3

// storedLabels are those of process 1.
const storedLabels = `{layer="reliable",processor="1"}`

// storedRole is a process that serves metrics. Process 1 waits for more than has been stored.
func storedRole(ctx context.Context) error {
	w, err := splitc.Start(ctx, &splitc.Config{Layer: "reliable", HeapSize: 1 << 20})
	if err != nil {
		return err
	}
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(w.NIC())
	forget := collector.WatchWorld(w)
	stop, err := serveMetrics(collector)
	if err != nil {
		return err
	}
	defer stop()
	a, err := splitc.AllSpreadMalloc[int64](ctx, w, w.Procs(), storedElements)
	if err != nil {
		return err
	}
	if w.MyProc() == 0 {
		err = storeLate(ctx, w, a.On(1))
	} else {
		err = w.StoreSync(ctx, 8*storedElements)
	}
	if err != nil {
		return err
	}
	announces := announce
	if w.MyProc() == 0 {
		announces = announceAndStay
	}
	if err := announces(announcement{Rank: w.MyProc()}); err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	forget()
	return w.Exit(ctx)
}

// storeLate stores an element, and when it is told to the others.
func storeLate(ctx context.Context, w *splitc.World, p splitc.Global[int64]) error {
	for i := range storedElements {
		if err := splitc.Store(ctx, w, p.Add(i), 1); err != nil {
			return err
		}
		if err := w.Poll(); err != nil { // it leaves
			return err
		}
		if i == 0 {
			if err := awaitTold(); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestStoreSyncDump: a process hangs in store_sync, because the other one does not store what
// the test does not ask it for. Over HTTP and by SIGQUIT to the lab it tells what it waits
// for and how much has come, its metrics say for how long, and the program goes on as if
// nothing had been.
func TestStoreSyncDump(t *testing.T) {
	needLab(t)
	run := serveLab(t, "stored")
	run.hear(t, run.serves)
	const waits = " in store_sync, for 24 bytes, of which 8 have come"
	dump := awaitText(t, run.server+"/rank/1/debug/bobnet", waits)
	for _, want := range []string{"split-c: process 1 of 2, layer reliable, ", "NIC bob0  "} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in the dump of process 1:\n%s", want, dump)
		}
	}
	var form struct{ Worlds []splitc.Snapshot }
	if err := json.Unmarshal([]byte(get(t, run.server+"/rank/1/debug/bobnet?format=json")), &form); err != nil {
		t.Fatal(err)
	}
	if len(form.Worlds) != 1 || !form.Worlds[0].IsWaiting || form.Worlds[0].Waiting.What != "store_sync" || form.Worlds[0].Waiting.Bytes != 8*storedElements {
		t.Errorf("the JSON says %+v", form)
	}
	metrics := get(t, run.server+"/rank/1/metrics")
	if line := "bobnet_splitc_received_bytes_total" + storedLabels + " 8\n"; !strings.Contains(metrics, line) {
		t.Errorf("no %q in the metrics of process 1:\n%s", line, metrics)
	}
	if line := "bobnet_splitc_waiting_seconds" + storedLabels + " 0\n"; strings.Contains(metrics, line) || !strings.Contains(metrics, strings.TrimSuffix(line, "0\n")) {
		t.Errorf("the metrics of process 1 do not say that it waits:\n%s", metrics)
	}

	awaitText(t, run.server+"/rank/0/debug/bobnet", "split-c: process 0 of 2")
	if err := unix.Kill(run.pid, unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	run.hear(t, func() bool {
		said := run.said.String()
		return strings.Contains(said, "[0] SIGQUIT again") && strings.Contains(said, "[1] SIGQUIT again")
	})
	for _, want := range []string{"[0]   computes\n", "[1]   waits for ", waits} {
		if !strings.Contains(run.said.String(), want) {
			t.Errorf("no %q in what the processes said when they got SIGQUIT:\n%s", want, &run.said)
		}
	}
	if _, err := run.stdin.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	run.hear(t, run.finished)
	run.end(t)
}

// TestStoreSyncPrometheus: a Prometheus server sees a process wait in store_sync, and how much
// has come before and after the other one stores the rest.
func TestStoreSyncPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts a Prometheus server")
	}
	needPrometheus(t)
	run := serveLab(t, "stored")
	run.hear(t, run.serves)
	p := startPrometheus(t, run.server)
	p.await(t, "bobnet_splitc_waiting_seconds"+storedLabels+" > 1")
	p.await(t, "bobnet_splitc_received_bytes_total"+storedLabels+" == 8")
	checkMetrics(t, run.server+"/rank/1/metrics")
	if _, err := run.stdin.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	run.hear(t, run.finished)
	p.await(t, "bobnet_splitc_received_bytes_total"+storedLabels+" == 24")
	run.end(t)
}

// messagesCardRole is messagesMetricsRole on a card.
func messagesCardRole(ctx context.Context) error {
	card, err := endpoints.Open(ctx, &endpoints.Config{Interface: config().Interface})
	if err != nil {
		return err
	}
	defer card.Close()
	node, err := endpoint.Open(ctx, &endpoint.Config{Card: card})
	if err != nil {
		return err
	}
	defer node.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchEndpointCard(card)
	return serveMessages(ctx, node, collector)
}

// processCardRole is processMetricsRole on a card.
func processCardRole(ctx context.Context) error {
	cfg := config()
	host, err := vmmccard.Open(ctx, &vmmccard.Config{Interface: cfg.Interface})
	if err != nil {
		return err
	}
	defer host.Close()
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: host, Process: uint32(cfg.Rank), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer p.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchVMMCCard(host)
	return serveWrites(ctx, p, cfg.Rank, collector)
}

// TestPrometheusCards lets a real Prometheus server scrape hosts with cards of all three
// control programs, joined by a cable, and their mappers: what it has is what was done.
func TestPrometheusCards(t *testing.T) {
	need.Long(t, "it takes half a minute; TestStoreSyncPrometheus starts a server, too")
	needPrometheus(t)
	fabric := filepath.Join(t.TempDir(), "cable")
	if err := os.WriteFile(fabric, []byte("host a b\nlink a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var labs []*labRun
	var servers []string
	for _, role := range []string{"am", "amcard", "vmmccard"} { // the first over NICs on plain cards
		r := serveLab(t, role, "--fabric", fabric)
		labs = append(labs, r)
		r.hear(t, r.serves)
		servers = append(servers, r.server)
	}
	p := startPrometheus(t, servers...)
	for _, r := range labs {
		if _, err := r.stdin.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range labs {
		r.hear(t, r.finished)
	}
	done := time.Now()
	for i, r := range labs {
		p.checkCards(t, instance(r))
		for rank := range 2 {
			p.checkProgram(t, i, instance(r), rank, done)
			checkMetrics(t, fmt.Sprintf("%s/rank/%d/metrics", r.server, rank))
		}
		r.end(t)
	}
}

// checkCards wants what all cards of a lab of two hosts have, and their mappers.
func (p *prometheus) checkCards(t *testing.T, instance string) {
	t.Helper()
	job := fmt.Sprintf(`instance="%s"`, instance)
	for _, want := range []string{
		"sum(bobnet_card_cable_up{%s}) == 2", "sum(bobnet_card_transmit_packets_total{%s}) > 100", "sum(bobnet_card_receive_packets_total{%s}) > 100",
		"sum(bobnet_card_stations{%s}) >= 2", "sum(bobnet_card_long_routes_total{%s}) == 0", `sum(bobnet_card_dropped_packets_total{%s,reason="crc"}) == 0`,
		"sum(bobnet_mapper_leading{%s}) == 1", "sum(bobnet_mapper_maps_total{%s}) >= 1", "sum(bobnet_map_hosts{%s}) == 2", "sum(bobnet_map_cables{%s}) == 1",
	} {
		p.await(t, fmt.Sprintf(want, job))
	}
}

// checkProgram wants what a rank's control program has done: that of lab 0 moves frames, of
// lab 1 active messages, of lab 2 what VMMC writes.
func (p *prometheus) checkProgram(t *testing.T, program int, instance string, rank int, done time.Time) {
	t.Helper()
	job := fmt.Sprintf(`instance="%s",rank="%d"`, instance, rank)
	counters := map[string]float64{}
	var others []string
	switch program {
	case 0:
		counters["card_bad_doorbells_total{%s}"] = 0
	case 1:
		for _, reason := range []string{"tag", "no_endpoint"} {
			counters[`amcard_nacks_total{%s,reason="`+reason+`"}`] = 0
		}
		for _, reason := range []string{"unanswered", "refused", "no_route", "bad_entry"} {
			counters[`amcard_returned_messages_total{%s,reason="`+reason+`"}`] = 0
		}
		counters[`amcard_dropped_total{%s,reason="forged"}`] = 0
		others = []string{"amcard_endpoints{%s} == 1", "amcard_resident_endpoints{%s} == 1", "amcard_programs{%s} == 1", "amcard_loads_total{%s} == 1",
			"amcard_evictions_total{%s} == 0", fmt.Sprintf("amcard_delivered_messages_total{%%s} >= %d", amAnswered), "amcard_faults_total{%s} >= 1",
			"amcard_retransmissions_total{%s} >= 0", "card_interrupts_total{%s} > 0", "amcard_posted_messages{%s} == 0", "amcard_queued_messages{%s} == 0"}
	case 2:
		for _, reason := range []string{"too_long", "not_imported", "not_its_memory", "no_request"} {
			counters[`vmmccard_refused_requests_total{%s,reason="`+reason+`"}`] = 0
		}
		counters[`vmmccard_dropped_packets_total{%s,reason="not_writable"}`] = 0
		counters["vmmccard_lines_cut_total{%s}"] = 0
		others = []string{"vmmccard_loaded{%s} == 1", "vmmccard_processes{%s} == 1", "vmmccard_nodes{%s} == 2", "vmmccard_writable_pages{%s} >= 1",
			"vmmccard_proxy_pages{%s} >= 1", "vmmccard_chunks_total{%s} > 0", "vmmccard_queued_requests{%s} == 0", "card_interrupts_total{%s} > 0"}
		if rank == 0 {
			others = append(others, fmt.Sprintf("vmmccard_transmit_memory_bytes_total{%%s} >= %d", 100*vmmcNotes))
		}
	}
	for name, want := range counters {
		p.checkCounter(t, fmt.Sprintf("bobnet_"+name, job), want, done)
	}
	for _, want := range others {
		p.await(t, fmt.Sprintf("bobnet_"+want, job))
	}
}
