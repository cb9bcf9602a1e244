package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

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
	for _, want := range []string{"process 3 of 4, layer am", "waits for 1.5s in store_sync, for 100 bytes, of which 64 have come", "gets=5/40B", "requests=9"} {
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
