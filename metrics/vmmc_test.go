package metrics_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

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
