package metrics_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type fakeDaemon daemon.Snapshot

func (f *fakeDaemon) Snapshot() daemon.Snapshot { return daemon.Snapshot(*f) }

func nodeDaemon() *fakeDaemon {
	return &fakeDaemon{Node: ethertype.MAC{2, 0, 0, 0, 0, 1}, Stats: daemon.Stats{Matches: 3, Proven: 4, Unproven: 5, Deaths: 6, Told: 7, Refused: 8},
		Processes: []daemon.Process{{Process: 1, PID: 77, UID: 1000, Exports: 2, Words: []string{"a\x1bb"}}, {Process: 9, Job: "job", Exports: 1, Matching: 2}}}
}

// TestDaemon: daemons are exported and in dumps, in which what processes have said is harmless,
// and stop when they are forgotten.
func TestDaemon(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchDaemon(nodeDaemon()), c.WatchDaemon(nodeDaemon())}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_daemon_processes{node="02:00:00:00:00:01"} 2`,
		`bobnet_daemon_exports{node="02:00:00:00:00:01"} 3`,
		`bobnet_daemon_waiting_imports{node="02:00:00:00:00:01"} 2`,
		`bobnet_daemon_matches_total{node="02:00:00:00:00:01"} 3`,
		`bobnet_daemon_users_proven_total{node="02:00:00:00:00:01"} 4`,
		`bobnet_daemon_users_unproven_total{node="02:00:00:00:00:01"} 5`,
		`bobnet_daemon_deaths_total{node="02:00:00:00:00:01"} 6`,
		`bobnet_daemon_deaths_heard_total{node="02:00:00:00:00:01#2"} 7`,
		`bobnet_daemon_refused_processes_total{node="02:00:00:00:00:01"} 8`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	_, _, text = fetch(t, c.DumpHandler(), "/debug/bobnet")
	for _, want := range []string{"vmmc daemon of node 02:00:00:00:00:01\n", "exporters found 3,", "processes refused 8\n", `"a\x1bb"`, `"job"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if status, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet?format=json"); status != http.StatusOK || !strings.Contains(text, `"Matching": 2`) {
		t.Errorf("status %d,\n%s", status, text)
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("what was forgotten still exports %d metrics", n)
	}
}

// sealedNIC is a NIC whose frames are sealed, or not.
type sealedNIC struct {
	name   string
	stats  seal.Stats
	sealed bool
}

func (n *sealedNIC) Snapshot() vipl.Snapshot {
	return vipl.Snapshot{Attributes: vipl.NICAttributes{Name: n.name}}
}

func (n *sealedNIC) SealStats() (seal.Stats, bool) { return n.stats, n.sealed }

// TestSeal: what protects frames is exported of NICs that have a key, and of no others.
func TestSeal(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchNIC(&sealedNIC{"plain0", seal.Stats{}, false})
	if text := gather(t, c); strings.Contains(text, "bobnet_seal") {
		t.Errorf("a NIC without a key has series:\n%s", text)
	}
	c.WatchNIC(&sealedNIC{"eth0", seal.Stats{Sessions: 2, Opened: 30, Sealed: 40, Altered: 5, Crowded: 6}, true})
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_seal_sessions_total{interface="eth0",port="0"} 2`, `bobnet_seal_receive_frames_total{interface="eth0",port="0"} 30`,
		`bobnet_seal_transmit_frames_total{interface="eth0",port="0"} 40`,
		`bobnet_seal_dropped_frames_total{interface="eth0",port="0",reason="altered"} 5`,
		`bobnet_seal_dropped_frames_total{interface="eth0",port="0",reason="crowded"} 6`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

type fakeWorld splitc.Snapshot

func (f *fakeWorld) Snapshot() splitc.Snapshot { return splitc.Snapshot(*f) }

func splitcWorld() *fakeWorld {
	f := &fakeWorld{Proc: 3, Procs: 4, Layer: "am", HeapSize: 1 << 20, Allocated: 4096, Outstanding: 2, Received: 80, Consumed: 16,
		IsWaiting: true, Waiting: splitc.Waiting{What: "store_sync", Bytes: 100}, Waited: 1500 * time.Millisecond}
	f.Stats.Gets = splitc.Count{Ops: 5, Bytes: 40}
	f.Stats.Stores = splitc.Count{Ops: 6, Bytes: 600}
	f.Below.Requests, f.Below.CreditWaits, f.Below.Strays, f.Strays = 9, 7, 1, 2
	return f
}

// TestSplitC: processes of Split-C are exported, operations by kind, and stop when they are
// forgotten; a dump says what they wait for.
func TestSplitC(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchWorld(splitcWorld()), c.WatchWorld(splitcWorld())}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_splitc_heap_bytes{layer="am",processor="3"} 1.048576e+06`,
		`bobnet_splitc_heap_bytes{layer="am",processor="3#2"} 1.048576e+06`,
		`bobnet_splitc_operations_total{kind="get",layer="am",processor="3"} 5`,
		`bobnet_splitc_operation_bytes_total{kind="store",layer="am",processor="3"} 600`,
		`bobnet_splitc_received_bytes_total{layer="am",processor="3"} 80`,
		`bobnet_splitc_waiting_seconds{layer="am",processor="3"} 1.5`,
		`bobnet_splitc_layer_credit_stalls_total{layer="am",processor="3"} 7`,
		`bobnet_splitc_layer_stray_messages_total{layer="am",processor="3"} 3`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var dump strings.Builder
	c.Dump().WriteTo(&dump)
	for _, want := range []string{"process 3 of 4, layer am", "waits for 1.5s in store_sync, for 100 bytes, of which 64 have come", "gets 5 (40 bytes)", "requests 9"} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("no %q in\n%s", want, dump.String())
		}
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d metrics of what was forgotten", n)
	}
}

type fakeStreams stream.Snapshot

func (f *fakeStreams) Snapshot() stream.Snapshot { return stream.Snapshot(*f) }

// TestStreams: hosts of streams are exported, however many streams they have, and stop when
// they are forgotten; a dump says what each stream waits for.
func TestStreams(t *testing.T) {
	at := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 1024}
	s := &fakeStreams{Addr: at, Open: 70, Counts: stream.Counts{Dialed: 3, Refused: 2}, Stats: stream.Stats{BytesRead: 40, CreditsSent: 5},
		Listeners: []stream.ListenerSnapshot{{Addr: stream.Addr{Name: "files"}, Waiting: 4, Backlog: 128}},
		Conns:     []stream.ConnSnapshot{{Local: stream.Addr{Addr: at}, Unread: 17, UnreadThere: 99, Ended: true, Err: "it is gone"}}}
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchStreams(s), c.WatchStreams((*fakeStreams)(&stream.Snapshot{Addr: at}))}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_stream_open_streams{host="02:00:00:00:00:01/1024"} 70`,
		`bobnet_stream_open_streams{host="02:00:00:00:00:01/1024#2"} 0`,
		`bobnet_stream_waiting_streams{host="02:00:00:00:00:01/1024"} 4`,
		`bobnet_stream_refused_total{host="02:00:00:00:00:01/1024"} 2`,
		`bobnet_stream_read_bytes_total{host="02:00:00:00:00:01/1024"} 40`,
		`bobnet_stream_sent_credits_total{host="02:00:00:00:00:01/1024"} 5`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var dump strings.Builder
	c.Dump().WriteTo(&dump)
	for _, want := range []string{"70 open, dialed=3", "listening at bobnet://files, 4 of 128 waiting", "UNREAD 17 UNSENT 0 THERE 99 UNDERWAY 0, ended there, it is gone", "and 69 more"} {
		if !strings.Contains(dump.String(), want) {
			t.Errorf("no %q in\n%s", want, dump.String())
		}
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d metrics of what was forgotten", n)
	}
}

// someSwitch has two ports, of which one has a cable.
type someSwitch struct{}

func (someSwitch) String() string { return "s0" }

func (someSwitch) Ports() []hardware.LivePort {
	p := hardware.LivePort{Port: 1, Interface: "p1", Up: true, Credit: 7}
	p.Packets.PacketsIn, p.Packets.BlockedNanos, p.Packets.NoRoute = 3, 1_500_000_000, 2
	return []hardware.LivePort{{}, p}
}

// TestSwitchCollector: a port with a cable has series, with its labels.
func TestSwitchCollector(t *testing.T) {
	c := metrics.NewSwitchCollector(someSwitch{})
	want := `
# HELP bobnet_switch_blocked_seconds_total Total waiting time of received packets.
# TYPE bobnet_switch_blocked_seconds_total counter
bobnet_switch_blocked_seconds_total{interface="p1",port="1",switch="s0"} 1.5
# HELP bobnet_switch_receive_packets_total Packets received at the port.
# TYPE bobnet_switch_receive_packets_total counter
bobnet_switch_receive_packets_total{interface="p1",port="1",switch="s0"} 3
# HELP bobnet_switch_port_up 1 if the other end of the cable is present.
# TYPE bobnet_switch_port_up gauge
bobnet_switch_port_up{interface="p1",port="1",switch="s0"} 1
`
	err := testutil.CollectAndCompare(c, strings.NewReader(want),
		"bobnet_switch_blocked_seconds_total", "bobnet_switch_receive_packets_total", "bobnet_switch_port_up")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

type fakeTun tun.Snapshot

func (f *fakeTun) Snapshot() tun.Snapshot { return tun.Snapshot(*f) }

// TestTun: IP networks are exported, and in dumps.
func TestTun(t *testing.T) {
	c := metrics.NewCollector(nil)
	one := &fakeTun{Device: "bobnet0", Network: "default", MTU: 65000, PacketsSent: 3, Counts: tun.Counts{Spoofed: 7},
		Neighbours: []tun.Neighbour{{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Queued: 5}, {Queued: 6}}}
	forget := c.WatchTun(one)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{`bobnet_tun_neighbours{device="bobnet0"} 2`, `bobnet_tun_queued_bytes{device="bobnet0"} 11`,
		`bobnet_tun_packets_sent_total{device="bobnet0"} 3`, `bobnet_tun_dropped_packets_total{device="bobnet0",reason="spoofed"} 7`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	var dump bytes.Buffer
	if _, err := c.Dump().WriteTo(&dump); err != nil || !strings.Contains(dump.String(), "tun bobnet0: network \"default\"") || !strings.Contains(dump.String(), "02:00:00:00:00:01") {
		t.Errorf("%v\n%s", err, dump.String())
	}
	forget()
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d series of a network that is gone", n)
	}
}

type fakeProcess vmmc.Snapshot

func (f *fakeProcess) Snapshot() vmmc.Snapshot { return vmmc.Snapshot(*f) }

func process() *fakeProcess {
	f := &fakeProcess{Self: vmmc.Peer{Node: ethertype.MAC{2, 0, 0, 0, 0, 1}, Process: 3}, Imports: 4, Queued: 5,
		Exports: []vmmc.ExportSnapshot{{ID: 7, Bytes: 4096, Importers: 2, Words: []string{"board"}}, {ID: 8, Bytes: 1000, Importers: 1}}}
	f.Stats = vmmc.Stats{Sends: 9, Refused: 6, PastEnd: 2, Denied: 1, Notified: 8}
	f.Stats.Violations = 3
	return f
}

type fakeServer vrpc.Snapshot

func (f *fakeServer) Snapshot() vrpc.Snapshot { return vrpc.Snapshot(*f) }

func server(programs int) *fakeServer {
	f := &fakeServer{Conns: 11, ProgUnavail: 12}
	f.AuthErrors[vrpc.AuthTooWeak], f.AuthErrors[vrpc.AuthBadCred] = 1, 2
	for i := range programs {
		p := vrpc.ProgramSnapshot{Program: uint32(100 + i), Version: 2, Name: "FILE", Denied: 5}
		p.Accepted[vrpc.GarbageArgs] = 4
		f.Programs = append(f.Programs, p)
	}
	return f
}

// TestVMMC: processes and servers are exported, by reason and status, and stop when they are
// forgotten.
func TestVMMC(t *testing.T) {
	c := metrics.NewCollector(nil)
	forget := []func(){c.WatchProcess(process()), c.WatchProcess(process()), c.WatchRPC(server(1)), c.WatchRPC(server(0))}
	problems, err := testutil.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	text := gather(t, c)
	for _, want := range []string{
		`bobnet_vmmc_exports{process="02:00:00:00:00:01/3"} 2`,
		`bobnet_vmmc_exports{process="02:00:00:00:00:01/3#2"} 2`,
		`bobnet_vmmc_exported_bytes{process="02:00:00:00:00:01/3"} 5096`,
		`bobnet_vmmc_importers{process="02:00:00:00:00:01/3"} 3`,
		`bobnet_vmmc_imports{process="02:00:00:00:00:01/3"} 4`,
		`bobnet_vmmc_queued_notifications{process="02:00:00:00:00:01/3"} 5`,
		`bobnet_vmmc_notifications_received_total{process="02:00:00:00:00:01/3"} 8`,
		`bobnet_vmmc_writes_total{process="02:00:00:00:00:01/3"} 9`,
		`bobnet_vmmc_refused_total{process="02:00:00:00:00:01/3",reason="no_import"} 4`,
		`bobnet_vmmc_refused_total{process="02:00:00:00:00:01/3",reason="past_end"} 2`,
		`bobnet_vmmc_refused_total{process="02:00:00:00:00:01/3",reason="policy"} 1`,
		`bobnet_vmmc_refused_total{process="02:00:00:00:00:01/3",reason="violation"} 3`,
		`bobnet_rpc_connections_total{server="rpc"} 11`,
		`bobnet_rpc_connections_total{server="rpc#2"} 11`,
		`bobnet_rpc_calls_total{program="100",server="rpc",status="garbage_arguments",version="2"} 4`,
		`bobnet_rpc_calls_total{program="100",server="rpc",status="denied",version="2"} 5`,
		`bobnet_rpc_refused_calls_total{reason="program_unavailable",server="rpc"} 12`,
		`bobnet_rpc_refused_calls_total{reason="authentication",server="rpc"} 3`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, f := range forget {
		f()
	}
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("what was forgotten still exports %d metrics", n)
	}
}

// TestBoundedPrograms: however many programs a server has, the number of time series stays, and
// no call is lost from the sums.
func TestBoundedPrograms(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchRPC(server(1000))
	if n, want := testutil.CollectAndCount(c, "bobnet_rpc_calls_total"), (32+1)*8; n != want {
		t.Errorf("%d series, want %d", n, want)
	}
	want := fmt.Sprintf(`bobnet_rpc_calls_total{program="other",server="rpc",status="denied",version=""} %d`, 5*(1000-32))
	if got := gather(t, c); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}

// TestDumpOfVMMC: processes and servers are in dumps, as text and as JSON.
func TestDumpOfVMMC(t *testing.T) {
	c := metrics.NewCollector(nil)
	c.WatchProcess(process())
	c.WatchRPC(server(1))
	_, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet")
	for _, want := range []string{"vmmc process 3 at 02:00:00:00:00:01  open\n  4 imports, 5 notifications queued, 0 requests wait for an export\n",
		"writes 9, violations 3, refused sends 6, denied 1, notifications that came 8\n", "  7       4096 B  2          board\n",
		"RPC server  0 connections open\n  connections 11, no program 12, denied because the credential is malformed 2", "  100      2        FILE  0        0             4        0             5       0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	status, _, text := fetch(t, c.DumpHandler(), "/debug/bobnet?format=json")
	for _, want := range []string{`"Processes"`, `"Refused": 6`, `"Servers"`, `"ProgUnavail": 12`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("no %q in, status %d,\n%s", want, status, text)
		}
	}
}
