package metrics_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
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
