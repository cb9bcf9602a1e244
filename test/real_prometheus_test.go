package test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/bobnet-go/bobnet/internal/need"
	"io"
	"net/http"
	"net/http/httptest"
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
)

// scrapedRole is metricsRole, but rank 0 sends when it is told to.
func scrapedRole(ctx context.Context) error {
	return serveAndSend(ctx, func() error {
		_, err := io.ReadFull(os.Stdin, make([]byte, 1))
		return err
	})
}

// TestPrometheus lets a real Prometheus server find and scrape the ranks of two
// labs under bobnet lab --metrics while in each of them one sends to the other, by
// MPLite and VIs here and by active messages there, and asks it: counters and
// rates are what was sent, and every query of the dashboard has an answer.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	needLab(t)
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			need.Skip(t, "%s: apt-get install prometheus", program)
		}
	}
	run, am := serveLab(t, "scraped"), serveLab(t, "am")
	run.hear(t, run.serves)
	am.hear(t, am.serves)
	p := startPrometheus(t, run.server, am.server)
	for rank := range 2 { // all are known, and have sent nothing
		p.await(t, fmt.Sprintf(`count_over_time(bobnet_mplite_sent_bytes_total{rank="%d"}[5m]) >= 2`, rank))
		p.await(t, fmt.Sprintf(`count_over_time(bobnet_am_requests_sent_total{rank="%d"}[5m]) >= 2`, rank))
	}
	for _, r := range []*labRun{run, am} {
		if _, err := r.stdin.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		r.hear(t, r.finished)
	}
	done := time.Now()
	for _, a := range run.ranks {
		p.checkRank(t, instance(run), a, done)
		p.checkNode(t, instance(am), a.Rank, done)
	}
	p.checkDashboard(t)
	for _, r := range []*labRun{run, am} {
		for rank := range 2 {
			checkMetrics(t, fmt.Sprintf("%s/rank/%d/metrics", r.server, rank))
		}
		r.end(t)
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

// checkRank compares counters and rates of one rank, as they are after done,
// with what it has sent.
func (p *prometheus) checkRank(t *testing.T, instance string, a announcement, done time.Time) {
	t.Helper()
	sent, received := 1., 0. // times each of the messages
	if a.Rank == 1 {
		sent, received = 0, 1
	}
	const bytes = eagerCount*eagerSize + largeCount*largeSize
	rank := fmt.Sprintf(`instance="%s",rank="%d"`, instance, a.Rank)
	vi := rank + fmt.Sprintf(`,interface="bob0",port="%d",vi="%d"`, a.Port, a.VI)
	for _, m := range []struct {
		name, labels string
		want         float64
	}{
		{"bobnet_mplite_eager_sent_total", rank, sent * eagerCount},
		{"bobnet_mplite_eager_received_total", rank, received * eagerCount},
		{"bobnet_mplite_sent_bytes_total", rank, sent * bytes},
		{"bobnet_mplite_received_bytes_total", rank, received * bytes},
		{"bobnet_vi_sends_completed_total", vi, sent * viCount},
		{"bobnet_vi_receives_total", vi, received * viCount},
		{"bobnet_vi_transmit_bytes_total", vi, sent * viCount * viSize},
		{"bobnet_vi_receive_bytes_total", vi, received * viCount * viSize},
	} {
		p.checkCounter(t, fmt.Sprintf("%s{%s}", m.name, m.labels), m.want, done)
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

// checkRate compares the rate over the time before at, which begins before
// anything was sent and ends after it, with what was sent. What Prometheus
// adds by extending the samples at both ends is bounded by their number.
func (p *prometheus) checkRate(ctx context.Context, expr string, at, want float64) error {
	raw, err := p.query(ctx, expr+"[5m]", at)
	if err != nil {
		return err
	}
	rate, err := p.query(ctx, fmt.Sprintf("rate(%s[5m])", expr), at)
	if err != nil {
		return err
	}
	if len(raw) != 1 || len(rate) != 1 {
		return fmt.Errorf("%s: %d series, %d rates, want one each", expr, len(raw), len(rate))
	}
	all := raw[0].Values
	if first, last := all[0].value, all[len(all)-1].value; first != 0 || last != want {
		return fmt.Errorf("%s grew from %v to %v, want from 0 to %v", expr, first, last, want)
	}
	const float = 1e-9
	got, most := rate[0].Value.value*window.Seconds(), want*(1+2.2/float64(len(all)-1))
	if got < want*(1-float) || got > most*(1+float) {
		return fmt.Errorf("rate(%s[5m]) makes %v in %v, want %v to %v", expr, got, window, want, most)
	}
	return nil
}

// TestCheckRate gives checkRate what a server might answer, right and wrong.
func TestCheckRate(t *testing.T) {
	const want = 300
	right := "0,0,100,300,300,300,300,300,300,300,300" // of which Prometheus makes up to want*(1+2.2/10)
	for _, c := range []struct {
		name, values string
		grown        float64 // what the rate makes in the window
		ok           bool
	}{
		{"Right", right, want, true},
		{"Extended", right, 365, true},
		{"TooSlow", right, 299, false},
		{"TooFast", right, 367, false},
		{"TooLittle", "0,0,100,299,299,299,299,299,299,299,299", want, false},
		{"TooMuch", "0,0,100,301,301,301,301,301,301,301,301", want, false},
		{"SomethingBefore", "1,1,100,300,300,300,300,300,300,300,300", want, false},
		{"NotThere", "", want, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := fmt.Sprintf(`{"metric":{},"value":[9,"%v"]}`, c.grown/window.Seconds())
				if !strings.HasPrefix(r.FormValue("query"), "rate(") {
					answer = `{"metric":{},"values":[` + samples(c.values) + `]}`
				}
				if c.values == "" {
					answer = ""
				}
				fmt.Fprintf(w, `{"status":"success","data":{"result":[%s]}}`, answer)
			}))
			defer server.Close()
			p := &prometheus{url: server.URL}
			if err := p.checkRate(t.Context(), "counter", 9, want); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// samples writes values as Prometheus does, one a second.
func samples(values string) string {
	var list []string
	for at, v := range strings.Split(values, ",") {
		list = append(list, fmt.Sprintf(`[%d,"%s"]`, at, v))
	}
	return strings.Join(list, ",")
}

// checkDashboard asks every query of docs/grafana.json, for all that there is.
// Those of what active messages have moved show more than zeros.
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
	variables := strings.NewReplacer("$instance", ".*", "$interface", ".*", "$vi", ".*", "$__rate_interval", "5m")
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
	if asked < 20 || moved != len(amMoved) {
		t.Errorf("the dashboard has %d queries, %d of them for what active messages have moved, which is %d metrics", asked, moved, len(amMoved))
	}
}
