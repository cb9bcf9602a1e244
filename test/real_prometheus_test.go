package test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
)

// scrapedRole is metricsRole, but rank 0 sends each share when it is told to.
func scrapedRole(ctx context.Context) error {
	return serveAndSend(ctx, awaitTold)
}

// TestPrometheus lets a real Prometheus server find and scrape the ranks of three
// labs under bobnet lab --metrics while in each of them one sends to the other, by
// MPLite and VIs in the first, by active messages in the second, by VMMC and remote
// procedures in the third, and asks it: counters and rates are what was sent, in the whole
// and in the midst of it, and every query of the dashboard has an answer.
func TestPrometheus(t *testing.T) {
	need.Long(t, "it takes half a minute; TestStoreSyncPrometheus starts a server, too")
	needPrometheus(t)
	run, am, written := serveLab(t, "scraped"), serveLab(t, "am"), serveLab(t, "written")
	labs := []*labRun{run, am, written}
	var servers []string
	for _, r := range labs {
		r.hear(t, r.serves)
		servers = append(servers, r.server)
	}
	p := startPrometheus(t, servers...)
	for rank := range 2 { // all are known, and have sent nothing
		p.await(t, fmt.Sprintf(`count_over_time(bobnet_mplite_sent_bytes_total{rank="%d"}[5m]) >= 2`, rank))
		p.await(t, fmt.Sprintf(`count_over_time(bobnet_am_requests_sent_total{rank="%d"}[5m]) >= 2`, rank))
		p.await(t, fmt.Sprintf(`count_over_time(bobnet_vmmc_handlers_total{rank="%d"}[5m]) >= 2`, rank))
	}
	p.pace(t, run)
	for _, r := range labs[1:] {
		if _, err := r.stdin.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range labs {
		r.hear(t, r.finished)
	}
	done := time.Now()
	for _, a := range run.ranks {
		p.checkRank(t, instance(run), a, done)
		p.checkNode(t, instance(am), a.Rank, done)
		p.checkProcess(t, instance(written), a.Rank, done)
	}
	p.checkDashboard(t)
	for _, r := range labs {
		for rank := range 2 {
			checkMetrics(t, fmt.Sprintf("%s/rank/%d/metrics", r.server, rank))
		}
		r.end(t)
	}
}

// needPrometheus skips where there is no lab, or no Prometheus.
func needPrometheus(t *testing.T) {
	t.Helper()
	needLab(t)
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			need.Skip(t, "%s: apt-get install prometheus", program)
		}
	}
}

// instance is the label that Prometheus gives to what it scrapes from a lab.
func instance(r *labRun) string { return strings.TrimPrefix(r.server, "http://") }

// checkMetrics runs promtool's linter over a scrape.
func checkMetrics(t *testing.T, url string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(get(t, url))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
}

// prometheus is a running server.
type prometheus struct{ url string }

// scrapeEvery is short, so that a few seconds hold the samples that rates need.
const scrapeEvery = 250 * time.Millisecond

const prometheusConfig = `
global:
  scrape_interval: %[1]v
  scrape_timeout: %[1]v
scrape_configs:
- job_name: bobnet
  http_sd_configs:%[2]s
`

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// startPrometheus starts a server that scrapes the targets of labs. It ends with
// the test.
func startPrometheus(t *testing.T, labs ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	var urls string
	for _, lab := range labs {
		urls += "\n  - url: " + lab + "/targets"
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, scrapeEvery, urls), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", config).CombinedOutput(); err != nil {
		t.Fatalf("promtool check config: %v\n%s", err, out)
	}
	cmd := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // it was killed
	})
	var said string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, log)
			return &prometheus{url: "http://" + m[1]}
		}
	}
	t.Fatalf("prometheus ended and said:\n%s", said)
	return nil
}

// series is one element of an answer: a value, or several over time.
type series struct {
	Metric map[string]string
	Value  sample
	Values []sample
}

// sample is [seconds, "value"] in JSON.
type sample struct{ at, value float64 }

func (s *sample) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &[2]any{&s.at, &text}); err != nil {
		return err
	}
	var err error
	s.value, err = strconv.ParseFloat(text, 64)
	return err
}

// query asks for an expression as it was at a time; 0 is now.
func (p *prometheus) query(ctx context.Context, expr string, at float64) ([]series, error) {
	form := url.Values{"query": {expr}}
	if at != 0 {
		form.Set("time", strconv.FormatFloat(at, 'f', 3, 64))
	}
	req, err := http.NewRequestWithContext(ctx, "GET", p.url+"/api/v1/query?"+form.Encode(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", expr, resp.Status, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return answer.Data.Result, nil
}

// await asks again and again until the answer is not empty, and returns its
// only element.
func (p *prometheus) await(t *testing.T, expr string) series {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(scrapeEvery)
	defer again.Stop()
	for {
		result, err := p.query(ctx, expr, 0)
		if err == nil && len(result) == 1 {
			return result[0]
		}
		// Until it is ready the server answers with what is not JSON.
		select {
		case <-ctx.Done():
			t.Fatalf("no answer to %s within %v: %v, %v", expr, patience, result, err)
		case <-again.C:
		}
	}
}

// window is what rates are asked over: from before anything was sent.
const window = 5 * time.Minute

// samplesMin bounds the error of rates: Prometheus extends what it has seen by
// up to 1.1 intervals of the samples on either side.
const samplesMin = 24

// amount is a counter and what it must be in the end.
type amount struct {
	expr string
	want float64
}

// rankAmounts are the counters of one rank; vi are the labels of its VI, if they
// are known.
func rankAmounts(instance string, rank int, vi string) []amount {
	sent, received := 1., 0. // times each of the messages
	if rank == 1 {
		sent, received = 0, 1
	}
	job := fmt.Sprintf(`{instance="%s",rank="%d"}`, instance, rank)
	one := strings.TrimSuffix(job, "}") + vi + "}"
	return []amount{
		{"bobnet_mplite_eager_sent_total" + job, sent * eagerCount},
		{"bobnet_mplite_eager_received_total" + job, received * eagerCount},
		{"bobnet_mplite_sent_bytes_total" + job, sent * jobBytes},
		{"bobnet_mplite_received_bytes_total" + job, received * jobBytes},
		{"bobnet_vi_sends_completed_total" + one, sent * viCount},
		{"bobnet_vi_receives_total" + one, received * viCount},
		{"bobnet_vi_transmit_bytes_total" + one, sent * viCount * viSize},
		{"bobnet_vi_receive_bytes_total" + one, received * viCount * viSize},
	}
}

// jobBytes is the payload of the job's messages.
const jobBytes = eagerCount*eagerSize + largeCount*largeSize

// pace has rank 0 send share by share, each when scrapes have shown the one
// before on both ranks, in the counters of bytes and so in those of messages,
// which the same scrape shows, and in the bytes of the NIC, headers included.
func (p *prometheus) pace(t *testing.T, run *labRun) {
	t.Helper()
	const payload = jobBytes + viCount*viSize
	for step := 1.; step <= steps; step++ {
		if _, err := run.stdin.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		for rank := range 2 {
			for _, m := range rankAmounts(instance(run), rank, "") {
				if m.want > 0 && strings.Contains(m.expr, "_bytes_") { // only the VI in question has so few
					p.await(t, fmt.Sprintf("%s == %v", m.expr, m.want*step/steps))
				}
			}
			counter := []string{"transmit", "receive"}[rank]
			p.await(t, fmt.Sprintf(`bobnet_nic_%s_bytes_total{instance="%s",rank="%d"} >= %v`, counter, instance(run), rank, payload*step/steps))
		}
	}
}

// checkRank compares counters and rates of one rank, as they are after done,
// with what it has sent.
func (p *prometheus) checkRank(t *testing.T, instance string, a announcement, done time.Time) {
	t.Helper()
	for _, m := range rankAmounts(instance, a.Rank, fmt.Sprintf(`,interface="bob0",port="%d",vi="%d"`, a.Port, a.VI)) {
		p.checkCounter(t, m.expr, m.want, done)
		if m.want > 0 {
			if err := p.checkPace(t.Context(), m.expr, m.want); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkCounter compares a counter and its rate, as they are after done, with what
// they should be.
func (p *prometheus) checkCounter(t *testing.T, expr string, want float64, done time.Time) {
	t.Helper()
	p.await(t, fmt.Sprintf("timestamp(%s) > %.3f", expr, float64(done.UnixMilli())/1000))
	seen := p.await(t, fmt.Sprintf("count_over_time(%s[5m]) >= %d", expr, samplesMin))
	if err := p.checkRate(t.Context(), expr, seen.Value.at, want); err != nil {
		t.Error(err)
	}
}

// checkDashboard asks every query of docs/grafana.json, for all that there is.
// Those of what active messages, VMMC and calls have moved show more than zeros.
func (p *prometheus) checkDashboard(t *testing.T) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readRoot(t, "docs/grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$instance", ".*", "$rank", ".*", "$interface", ".*", "$vi", ".*", "$__rate_interval", "5m")
	asked, moved := 0, 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			asked++
			result, err := p.query(t.Context(), variables.Replace(target.Expr), 0)
			if err == nil && len(result) == 0 {
				err = errors.New("nothing")
			}
			if err == nil && moves(target.Expr) {
				moved++
				if !slices.ContainsFunc(result, func(s series) bool { return s.Value.value > 0 }) {
					err = errors.New("only zeros")
				}
			}
			if err != nil {
				t.Errorf("panel %q: %s gives %v", panel.Title, target.Expr, err)
			}
		}
	}
	if asked < 20 || moved != len(movedMetrics) {
		t.Errorf("the dashboard has %d queries, %d of them for what was moved, which is %d metrics", asked, moved, len(movedMetrics))
	}
}
