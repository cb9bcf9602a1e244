package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What rank 0 of TestMetrics sends to rank 1, and rank 1 receives.
const (
	eagerCount, eagerSize = 30, 1000
	largeCount, largeSize = 5, 1 << 20
	viCount, viSize       = 40, 300
)

// steps are the shares of equal size in which rank 0 sends.
const steps = 5

// announcement is what a rank prints when the messages have been sent.
type announcement struct {
	Rank     int
	Port, VI uint16 // the labels of its NIC and of the VI for the last kind
}

// serveMetrics serves what a rank collects where bobnet lab --metrics looks for it, and over
// SIGQUIT, until stop is called.
func serveMetrics(collector *metrics.Collector) (stop func(), err error) {
	forget := collector.DumpOnQuit(os.Stderr)
	server, err := metrics.Serve(os.Getenv("BOBNET_METRICS"), collector)
	if err != nil {
		forget()
		return nil, err
	}
	return func() {
		server.Close()
		forget()
	}, nil
}

// awaitTold waits until the test writes to the rank.
func awaitTold() error {
	_, err := io.ReadFull(os.Stdin, make([]byte, 1))
	return err
}

// announce says that all messages have been sent.
func announce(a announcement) error { return json.NewEncoder(os.Stdout).Encode(a) }

// announceAndStay says so, and waits until the test has scraped.
func announceAndStay(a announcement) error {
	if err := announce(a); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// TestMetrics runs two ranks that serve metrics under bobnet lab --metrics,
// and scrapes both from outside: the counters are what the ranks have sent.
func TestMetrics(t *testing.T) {
	needLab(t)
	run := serveLab(t, "metrics")
	run.hear(t, run.finished)
	for _, a := range run.ranks {
		scrape(t, fmt.Sprintf("%s/rank/%d/metrics", run.server, a.Rank), a)
	}
	run.end(t)
}

// labRun is a bobnet lab --metrics whose two ranks play a role.
type labRun struct {
	server string         // where it serves the ranks' metrics
	ranks  []announcement // what they have announced so far
	stdin  io.WriteCloser // of rank 0
	lines  *bufio.Scanner // of what lab and ranks print
	output io.Reader
	said   strings.Builder
	pid    int
	ended  chan error
}

// serveLab starts a lab of two hosts whose ranks play a role, with more flags if there are any;
// with --fabric they say which hosts.
func serveLab(t *testing.T, role string, flags ...string) *labRun {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-v", "lab", "--metrics", "127.0.0.1:0"}, flags...)
	if !slices.Contains(flags, "--fabric") {
		args = append(args, "-n", "2")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(commands(t), "bobnet"), append(args, "--", self)...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	run := &labRun{lines: bufio.NewScanner(r), output: r, ended: make(chan error, 1)}
	if run.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	run.pid = cmd.Process.Pid
	go func() {
		err := cmd.Wait()
		w.Close()
		run.ended <- err
	}()
	return run
}

var (
	serving   = regexp.MustCompile(`targets=(http://[^/ ]*)/targets`)
	announced = regexp.MustCompile(`{"Rank.*}`)
)

// hear reads what the lab and its ranks say until that is enough.
func (r *labRun) hear(t *testing.T, enough func() bool) {
	t.Helper()
	for !enough() {
		if !r.lines.Scan() {
			t.Fatalf("the lab ended with %v and said:\n%s", <-r.ended, &r.said)
		}
		line := r.lines.Text()
		r.said.WriteString(line + "\n")
		if m := serving.FindStringSubmatch(line); m != nil {
			r.server = m[1]
		}
		if m := announced.FindString(line); m != "" {
			var a announcement
			if err := json.Unmarshal([]byte(m), &a); err != nil {
				t.Fatal(err)
			}
			r.ranks = append(r.ranks, a)
		}
	}
}

// serves and finished are what there is to hear: that the lab serves metrics,
// and that all messages have been sent.
func (r *labRun) serves() bool   { return r.server != "" }
func (r *labRun) finished() bool { return len(r.ranks) == 2 }

// end lets the ranks go and waits for them.
func (r *labRun) end(t *testing.T) {
	t.Helper()
	r.stdin.Close()
	for r.lines.Scan() { // until the lab has ended
		r.said.WriteString(r.lines.Text() + "\n")
	}
	io.Copy(io.Discard, r.output) // behind a line that was too long
	if err := <-r.ended; err != nil {
		t.Errorf("the lab ended with %v and said:\n%s", err, &r.said)
	}
}

// scrape compares the counters of one rank with what it has sent.
func scrape(t *testing.T, url string, a announcement) {
	t.Helper()
	sent, received := 1, 0 // times each of the messages
	if a.Rank == 1 {
		sent, received = 0, 1
	}
	const bytes = eagerCount*eagerSize + largeCount*largeSize
	for _, m := range []struct {
		name  string
		help  string
		value int
	}{
		{"bobnet_mplite_eager_sent_total", "Messages sent through bounce buffers.", sent * eagerCount},
		{"bobnet_mplite_eager_received_total", "Messages received through bounce buffers.", received * eagerCount},
		{"bobnet_mplite_rendezvous_sent_total", "Messages announced, and then written to the receiver's memory by RDMA or copied by the receiver.", sent * largeCount},
		{"bobnet_mplite_rendezvous_received_total", "Announced messages that senders wrote to this rank's memory by RDMA, or that this rank copied.", received * largeCount},
		{"bobnet_mplite_sent_bytes_total", "Payload sent.", sent * bytes},
		{"bobnet_mplite_received_bytes_total", "Payload received.", received * bytes},
		{"bobnet_mplite_failed_ranks_total", "Ranks detected as dead.", 0},
	} {
		want := fmt.Sprintf("# HELP %s %s\n# TYPE %s counter\n%s %d\n", m.name, m.help, m.name, m.name, m.value)
		if err := testutil.ScrapeAndCompare(url, strings.NewReader(want), m.name); err != nil {
			t.Errorf("rank %d: %v", a.Rank, err)
		}
	}
	text := get(t, url)
	labels := fmt.Sprintf(`{interface="bob0",port="%d",vi="%d"}`, a.Port, a.VI)
	for name, want := range map[string]int{
		"bobnet_vi_sends_total":           sent * viCount,
		"bobnet_vi_sends_completed_total": sent * viCount,
		"bobnet_vi_receives_total":        received * viCount,
		"bobnet_vi_transmit_bytes_total":  sent * viCount * viSize,
		"bobnet_vi_receive_bytes_total":   received * viCount * viSize,
	} {
		if line := fmt.Sprintf("%s%s %d\n", name, labels, want); !strings.Contains(text, "\n"+line) {
			t.Errorf("rank %d: no %q among:\n%s", a.Rank, line, regexp.MustCompile(name+".*").FindAllString(text, -1))
		}
	}
	// How many frames were sent again depends on when the machine lets the
	// peer run; that they are shown does not.
	if again := "\nbobnet_vi_retransmitted_frames_total" + labels + " "; !strings.Contains(text, again) {
		t.Errorf("rank %d: no %q", a.Rank, again)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return body(t, resp)
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metricsRole is a rank of TestMetrics: it serves metrics, sends or receives
// messages of three kinds, and stays until the test has scraped it.
func metricsRole(ctx context.Context) error {
	return serveAndSend(ctx, func() error { return nil })
}

// serveAndSend is metricsRole, but rank 0 calls ready before it sends a share.
func serveAndSend(ctx context.Context, ready func() error) error {
	cfg := config()
	var err error
	if cfg.NIC, err = vipl.Open(ctx, &vipl.Config{Interface: cfg.Interface}); err != nil {
		return err
	}
	defer cfg.NIC.Close()
	comm, err := mplite.Init(ctx, cfg)
	if err != nil {
		return err
	}
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(cfg.NIC)
	collector.WatchComm(comm)
	stop, err := serveMetrics(collector)
	if err != nil {
		return err
	}
	defer stop()
	end, err := newEnd(cfg.NIC)
	if err != nil {
		return err
	}
	if cfg.Rank == 0 {
		err = end.sender(ctx, comm, ready)
	} else {
		err = end.receiver(ctx, comm)
	}
	if err != nil {
		return err
	}
	return comm.Finalize(ctx)
}

// end is a VI of a rank of TestMetrics, beside those of the job.
type end struct {
	nic  *vipl.NIC
	vi   *vipl.VI
	desc [viCount]vipl.Descriptor
}

func newEnd(nic *vipl.NIC) (*end, error) {
	buf, mem, err := nic.AllocMem(viCount*viSize, nil)
	if err != nil {
		return nil, err
	}
	e := &end{nic: nic}
	if e.vi, err = nic.CreateVI(nil, nil, nil); err != nil {
		return nil, err
	}
	for i := range e.desc {
		e.desc[i].Segs = []vipl.Segment{{Data: buf[i*viSize : (i+1)*viSize], Handle: mem}}
	}
	return e, nil
}

// done is what a rank announces.
func (e *end) done(rank int) announcement {
	return announcement{Rank: rank, Port: e.nic.Addr().Port, VI: e.vi.Local().Port}
}

// serverName is the name of rank 1's listener.
const serverName = "test/metrics"

func (e *end) sender(ctx context.Context, comm *mplite.Comm, ready func() error) error {
	addr, err := e.nic.Lookup(ctx, serverName)
	if err != nil {
		return err
	}
	if err := e.vi.Connect(ctx, addr, nil); err != nil {
		return err
	}
	for i := range steps {
		if err := ready(); err != nil {
			return err
		}
		if err := e.share(ctx, comm, i); err != nil {
			return err
		}
	}
	if err := announceAndStay(e.done(0)); err != nil {
		return err
	}
	return comm.Send(ctx, nil, 1, 1)
}

// share sends share i of the messages.
func (e *end) share(ctx context.Context, comm *mplite.Comm, i int) error {
	for range eagerCount / steps {
		if err := comm.Send(ctx, make([]byte, eagerSize), 1, 0); err != nil {
			return err
		}
	}
	for range largeCount / steps {
		if err := comm.Send(ctx, make([]byte, largeSize), 1, 0); err != nil {
			return err
		}
	}
	const count = viCount / steps
	for k := range count {
		if err := e.vi.PostSend(&e.desc[i*count+k]); err != nil {
			return err
		}
		if _, err := e.vi.SendWait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *end) receiver(ctx context.Context, comm *mplite.Comm) error {
	for i := range e.desc {
		if err := e.vi.PostRecv(&e.desc[i]); err != nil {
			return err
		}
	}
	if err := e.accept(ctx); err != nil {
		return err
	}
	buf := make([]byte, largeSize)
	for range steps {
		for range (eagerCount + largeCount) / steps {
			if _, err := comm.Recv(ctx, buf, 0, 0); err != nil {
				return err
			}
		}
		for range viCount / steps {
			if _, err := e.vi.RecvWait(ctx); err != nil {
				return err
			}
		}
	}
	if err := announce(e.done(1)); err != nil {
		return err
	}
	_, err := comm.Recv(ctx, nil, 0, 1) // until rank 0 has been let go
	return err
}

func (e *end) accept(ctx context.Context) error {
	listener, err := e.nic.Listen(0)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := e.nic.Advertise(serverName, listener.Addr()); err != nil {
		return err
	}
	request, err := listener.Wait(ctx)
	if err != nil {
		return err
	}
	return request.Accept(ctx, e.vi)
}
