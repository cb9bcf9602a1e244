package metrics_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

// roleEnv makes the test binary the process that gets the signals.
const roleEnv = "BOBNET_TEST_QUIT"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		c := metrics.NewCollector(nil)
		c.WatchNIC(nicWith(1))
		defer c.DumpOnQuit(os.Stderr)()
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		fmt.Println("went on")
		return
	}
	os.Exit(m.Run())
}

// quitter is a process that dumps when it gets SIGQUIT.
type quitter struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner // standard output
	err *bufio.Scanner
}

func startQuitter(t *testing.T) *quitter {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	q := &quitter{Cmd: exec.CommandContext(t.Context(), self)}
	q.Env = append(os.Environ(), roleEnv+"=1", "GOTRACEBACK=single")
	in, inErr := q.StdinPipe()
	out, outErr := q.StdoutPipe()
	diag, diagErr := q.StderrPipe()
	if err := errors.Join(inErr, outErr, diagErr, q.Start()); err != nil {
		t.Fatal(err)
	}
	q.in, q.out, q.err = in, bufio.NewScanner(out), bufio.NewScanner(diag)
	until(t, q.out, "ready")
	return q
}

// until reads lines up to one with the given word in it, and returns them.
func until(t *testing.T, s *bufio.Scanner, word string) (text string) {
	t.Helper()
	for s.Scan() {
		text += s.Text() + "\n"
		if strings.Contains(s.Text(), word) {
			return text
		}
	}
	t.Fatalf("no line with %q among\n%s", word, text)
	return ""
}

// TestQuitGoesOn: SIGQUIT prints the dump and changes nothing else.
func TestQuitGoesOn(t *testing.T) {
	q := startQuitter(t)
	q.Process.Signal(syscall.SIGQUIT)
	if text := until(t, q.err, "SIGQUIT again"); !strings.Contains(text, "NIC bob0  ") || !strings.Contains(text, "UNACKNOWLEDGED") {
		t.Errorf("SIGQUIT printed\n%s", text)
	}
	q.in.Close()
	until(t, q.out, "went on")
	if err := q.Wait(); err != nil {
		t.Error(err)
	}
}

// TestQuitTwice: a second SIGQUIT soon after does what Go does. Should this
// machine take too long to send it, it is the first of two again.
func TestQuitTwice(t *testing.T) {
	q := startQuitter(t)
	q.Process.Signal(syscall.SIGQUIT)
	stacks := false
	for q.err.Scan() {
		if strings.Contains(q.err.Text(), "SIGQUIT again") {
			q.Process.Signal(syscall.SIGQUIT)
		}
		stacks = stacks || strings.HasPrefix(q.err.Text(), "goroutine ")
	}
	q.Wait()
	if code := q.ProcessState.ExitCode(); code != 2 || !stacks {
		t.Errorf("it ended with exit code %d, stacks printed: %v; want 2 and stacks", code, stacks)
	}
}
