package test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/splitc"
	"golang.org/x/sys/unix"
)

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
	defer collector.DumpOnQuit(os.Stderr)()
	server, err := metrics.Serve(os.Getenv("BOBNET_METRICS"), collector)
	if err != nil {
		return err
	}
	defer server.Close()
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
	if err := json.NewEncoder(os.Stdout).Encode(announcement{Rank: w.MyProc()}); err != nil {
		return err
	}
	if w.MyProc() == 0 {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the test has scraped
			return err
		}
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
			if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
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
