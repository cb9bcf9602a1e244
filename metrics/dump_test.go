package metrics_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
)

func fetch(t *testing.T, h http.Handler, target string) (status int, kind, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, w.Header().Get("Content-Type"), string(text)
}

// TestDumpHandler: what is watched is there in both forms.
func TestDumpHandler(t *testing.T) {
	c := metrics.NewCollector(nil)
	h := c.DumpHandler()
	if _, _, text := fetch(t, h, "/debug/bobnet"); !strings.Contains(text, "no NIC is open") {
		t.Errorf("the dump of nothing says\n%s", text)
	}
	c.WatchNIC(nicWith(2))
	c.WatchComm(&fakeComm{EagerSent: 5})
	c.WatchNode(&fakeNode{Sent: 8, Stalls: 3})
	status, kind, text := fetch(t, h, "/debug/bobnet")
	if status != http.StatusOK || !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("the text has status %d and type %s", status, kind)
	}
	for _, want := range []string{"NIC bob0  ", "dropped           crc 3\n", "VI 1026         8        send", `rank 2 of 4 in job "fake"`, "for a message",
		"node 02:00:00:00:00:01/7", "  requests sent 8, looks for a credit in vain 3\n", "  request  5s   for an answer\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	status, kind, text = fetch(t, h, "/debug/bobnet?format=json")
	var got struct {
		NICs []struct {
			Attributes struct{ Name string }
			Dropped    map[string]int
			VIs        []struct {
				State   string
				Pending []struct{ Age int64 }
			}
		}
		Rank  struct{ Job string }
		Stats struct{ EagerSent int }
		Nodes []struct {
			Stats   struct{ Stalls int }
			Bundles []struct {
				Endpoints []struct{ Translations []struct{ Age int64 } }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || kind != "application/json" {
		t.Fatalf("status %d, type %s, %v:\n%s", status, kind, err, text)
	}
	if len(got.NICs) != 1 || len(got.NICs[0].VIs) != 2 || got.NICs[0].Dropped["crc"] != 3 || got.NICs[0].VIs[1].State != "connected" ||
		got.NICs[0].VIs[1].Pending[0].Age != 2e9 || got.Rank.Job != "fake" || got.Stats.EagerSent != 5 || len(got.Nodes) != 1 || got.Nodes[0].Stats.Stalls != 3 || got.Nodes[0].Bundles[0].Endpoints[0].Translations[0].Age != 5e9 {
		t.Errorf("the JSON says %+v", got)
	}
	if status, _, _ := fetch(t, h, "/debug/bobnet?format=xml"); status != http.StatusBadRequest {
		t.Errorf("an unknown format has status %d", status)
	}
}

// stuckNIC is one whose lock somebody holds.
type stuckNIC struct{ free chan struct{} }

func (s *stuckNIC) Snapshot() vipl.Snapshot {
	<-s.free
	return vipl.Snapshot{}
}

// TestDumpStuck: a NIC that does not answer is named, the others are shown.
func TestDumpStuck(t *testing.T) {
	defer metrics.SetPatience(10 * time.Millisecond)()
	stuck := &stuckNIC{free: make(chan struct{})}
	defer close(stuck.free)
	c := metrics.NewCollector(nil)
	c.WatchNIC(stuck)
	forget := c.WatchNIC(nicWith(1))
	d := c.Dump()
	if len(d.Stuck) != 1 || !strings.Contains(d.Stuck[0], "NIC 0 does not answer") || len(d.NICs) != 1 {
		t.Errorf("%d NICs answered, stuck: %q", len(d.NICs), d.Stuck)
	}
	forget() // returns although one is stuck
	if d := c.Dump(); len(d.NICs) != 0 {
		t.Errorf("%d NICs answered after the only one was forgotten", len(d.NICs))
	}
}
