package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestNotesWrap: a note that is too long for the screen continues on the next line, a word that is, too.
func TestNotesWrap(t *testing.T) {
	v := &View{At: noon, Notes: []string{"http://127.0.0.1:9472/rank/2/metrics: HTTP status 502 Bad Gateway"}}
	for width, want := range map[int][]string{
		0:  {"http://127.0.0.1:9472/rank/2/metrics: HTTP status 502 Bad Gateway"},
		40: {"http://127.0.0.1:9472/rank/2/metrics:", "HTTP status 502 Bad Gateway"},
		20: {"http://127.0.0.1:947", "2/rank/2/metrics:", "HTTP status 502 Bad", "Gateway"},
	} {
		if got := v.lines(width, 0)[1:]; !slices.Equal(got, want) {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
}

var update = flag.Bool("update", false, "rewrite golden texts")

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// texts are what two programs say of a NIC each, one of which has two VIs: counters are
// multiples of n.
func texts(n float64) (heat, sort string) {
	heat = fmt.Sprintf(`# TYPE bobnet_nic_info gauge
bobnet_nic_info{interface="eth0",port="1024",mac="02:00:00:00:00:01",driver="ring",incarnation="00000000000000aa"} 1
# TYPE bobnet_nic_virtual_interfaces gauge
bobnet_nic_virtual_interfaces{interface="eth0",port="1024"} 2
# TYPE bobnet_nic_transmit_bytes_total counter
bobnet_nic_transmit_bytes_total{interface="eth0",port="1024"} %g
bobnet_nic_receive_bytes_total{interface="eth0",port="1024"} %g
bobnet_nic_transmit_frames_total{interface="eth0",port="1024"} %g
bobnet_nic_retransmitted_frames_total{interface="eth0",port="1024"} %g
bobnet_nic_receive_dropped_frames_total{interface="eth0",port="1024",reason="stale"} %g
bobnet_nic_receive_dropped_frames_total{interface="eth0",port="1024",reason="format"} %g
bobnet_vi_info{interface="eth0",port="1024",vi="1025",remote="02:00:00:00:00:02:1030",level="reliable delivery",state="connected"} 1
bobnet_vi_info{interface="eth0",port="1024",vi="1026",remote="02:00:00:00:00:03:1030",level="unreliable",state="connected"} 1
bobnet_vi_transmit_bytes_total{interface="eth0",port="1024",vi="1025"} %g
bobnet_vi_transmit_bytes_total{interface="eth0",port="1024",vi="1026"} 7
bobnet_vi_retransmitted_frames_total{interface="eth0",port="1024",vi="1026"} %g
bobnet_vi_oldest_unacknowledged_seconds{interface="eth0",port="1024",vi="1026"} 0.25
bobnet_vi_round_trip_seconds{interface="eth0",port="1024",vi="1025"} 1.5e-05
bobnet_vi_frames_in_flight{interface="eth0",port="1024",vi="1025"} 12
go_goroutines 8
`, 1e6*n, 2e3*n, 1000*n, 3*n, n, n, 9e5*n, 3*n)
	sort = fmt.Sprintf(`bobnet_nic_transmit_bytes_total{interface="eth0",port="1024",pid="42"} %g
bobnet_nic_info{interface="eth0",port="1024",pid="42",mac="02:00:00:00:00:01",driver="ring",incarnation="00000000000000bb"} 1
`, 5e3*n)
	return heat, sort
}

// sample is what the programs say, and a third station on the segment, at noon and so many
// seconds.
func sample(t *testing.T, seconds float64) *Sample {
	t.Helper()
	s := &Sample{At: noon.Add(time.Duration(seconds * float64(time.Second)))}
	heat, sort := texts(seconds + 1)
	if err := s.Read("localhost:9464", nil, strings.NewReader(heat)); err != nil {
		t.Fatal(err)
	}
	if err := s.Read("localhost:9465", map[string]string{"rank": "1", "__metrics_path__": "/x"}, strings.NewReader(sort)); err != nil {
		t.Fatal(err)
	}
	s.Found([]vipl.Station{
		{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 1}, Port: 1024}, HostName: "alpha", Driver: "ring", Incarnation: 0xaa},
		{Addr: ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: 2048}, HostName: "si\x1b[2Jlent", Driver: "udp", Incarnation: 0xcc},
	})
	return s
}

// golden compares text with a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: have\n%s\nwant\n%s", name, text, want)
	}
}

// TestText: what people read, with rates and at first sight.
func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := NewView(nil, sample(t, 0)).Write(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("---\n")
	later := sample(t, 2)
	later.Notes = []string{"http://localhost:1/metrics: connection\x1b[31m refused"}
	if err := NewView(sample(t, 0), later).Write(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "view.txt", b.String())
}

// TestJSON: what programs read. A rate that is not known is null.
func TestJSON(t *testing.T) {
	b, err := json.MarshalIndent(NewView(sample(t, 0), sample(t, 2)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "view.json", string(b)+"\n")
}

// TestRates: a rate is what a counter has grown by in a second; it is not known where the
// counter began anew, where the NIC is another one, and where there was no time.
func TestRates(t *testing.T) {
	for _, tc := range []struct {
		before, now string
		seconds     float64
		want        Rate
	}{
		{"a 100", "a 300", 2, 100},
		{"a 300", "a 300", 2, 0},
		{"a 300", "a 100", 2, Unknown},
		{"a 100", "b 300", 2, Unknown},
		{"a 100", "a 300", 0, Unknown},
		{"a NaN", "a 300", 2, Unknown},
		{"a 100", "a +Inf", 2, Unknown},
	} {
		read := func(text string, seconds float64) *Sample {
			s := &Sample{At: noon.Add(time.Duration(seconds * float64(time.Second)))}
			nic, value, _ := strings.Cut(text, " ")
			err := s.Read("x", nil, strings.NewReader(fmt.Sprintf("bobnet_nic_info{interface=\"e\",port=\"1\",incarnation=%q} 1\nbobnet_nic_transmit_bytes_total{interface=\"e\",port=\"1\"} %s\n", nic, value)))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		v := NewView(read(tc.before, 0), read(tc.now, tc.seconds))
		if len(v.Stations) != 1 || v.Stations[0].TxBytes != tc.want && (v.Stations[0].TxBytes.Known() || tc.want.Known()) {
			t.Errorf("%+v: %+v", tc, v.Stations)
		}
	}
}

// TestSort: each order, and names where nothing else tells.
func TestSort(t *testing.T) {
	v := NewView(sample(t, 0), sample(t, 2))
	for by, want := range map[Order]string{ByTraffic: "1025 1026", ByRetransmissions: "1026 1025", ByOldest: "1026 1025", ByName: "1025 1026"} {
		v.Sort(by)
		if have := v.VIs[0].VI + " " + v.VIs[1].VI; have != want {
			t.Errorf("%s: %s, want %s", by, have, want)
		}
	}
}

// TestSources: a program's metrics, a lab's list of targets, and sources that say nothing, or
// nonsense.
func TestSources(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	heat, sort := texts(1)
	mux.HandleFunc("/rank/0/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, heat) })
	mux.HandleFunc("/rank/1/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, sort) })
	mux.HandleFunc("/wrong", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>{") })
	mux.HandleFunc("/targets", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"targets":[%q],"labels":{"__metrics_path__":"/rank/0/metrics","rank":"0"}},{"targets":[%q],"labels":{"__metrics_path__":"/rank/1/metrics","rank":"1"}}]`, host, host)
	})
	plain := http.NewServeMux()
	plain.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, heat) })
	one := httptest.NewServer(plain)
	defer one.Close()
	for _, tc := range []struct {
		address  string
		programs []string
		note     string
	}{
		{host, []string{"pid=42,rank=1", "rank=0"}, ""},
		{server.URL + "/rank/0/metrics", []string{host}, ""},
		{one.URL, []string{strings.TrimPrefix(one.URL, "http://")}, ""},
		{server.URL + "/missing", nil, "404"},
		{server.URL + "/wrong", nil, "text format"},
	} {
		s, err := NewSources([]string{tc.address})
		if err != nil {
			t.Fatal(err)
		}
		var to Sample
		s.Take(t.Context(), &to)
		s.Close()
		programs := map[string]bool{}
		for key := range to.nics {
			programs[key.program] = true
		}
		notes := strings.Join(to.Notes, "\n")
		if have := slices.Sorted(maps.Keys(programs)); !slices.Equal(have, tc.programs) || !strings.Contains(notes, tc.note) || tc.note == "" && notes != "" {
			t.Errorf("%s: programs %q, notes %q", tc.address, have, notes)
		}
	}
	for _, bad := range []string{"", "ftp://x/y", "http://", "a b"} {
		if _, err := NewSources([]string{bad}); err == nil {
			t.Errorf("%q is taken for an address", bad)
		}
	}
	for _, bad := range []string{"{}", `[{"targets":["no port"]}]`, `[{"targets":["a:1/../x:9"]}]`} {
		if _, err := parseTargets("http", []byte(bad)); err == nil {
			t.Errorf("%s is taken for a list of targets", bad)
		}
	}
}

// TestOptionalSources: of addresses where nobody need serve metrics only those that do are spoken
// of, unless nobody does.
func TestOptionalSources(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	gone := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	one := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
		}
	}))
	defer one.Close()
	for _, tc := range []struct {
		asked, optional []string
		notes           string
	}{
		{nil, []string{gone, one.URL}, ""},
		{nil, []string{gone, gone}, "no metrics served at " + gone + " or " + gone},
		{[]string{gone}, nil, "refused"},
	} {
		s, err := NewSources(tc.asked, tc.optional...)
		if err != nil {
			t.Fatal(err)
		}
		var to Sample
		s.Take(t.Context(), &to)
		s.Close()
		if notes := strings.Join(to.Notes, "\n"); !strings.Contains(notes, tc.notes) || tc.notes == "" && notes != "" {
			t.Errorf("%q, %q: notes %q", tc.asked, tc.optional, notes)
		}
	}
}

// TestScreen: the terminal shows a view's lines as far as there is room, and keys change
// the order, stop it, scroll, and end it.
func TestScreen(t *testing.T) {
	var screen tea.Model = NewScreen(func() *Sample { return sample(t, 0) }, time.Second, ByTraffic)
	if text := screen.View(); !strings.Contains(text, "asking") {
		t.Errorf("before anything is known: %s", text)
	}
	press := func(keys string) (cmd tea.Cmd) {
		for _, k := range keys {
			screen, cmd = screen.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{k}})
		}
		return cmd
	}
	screen, _ = screen.Update(screen.Init()())
	screen, _ = screen.Update(sample(t, 2))
	press("o")
	text := screen.View()
	press("p")
	screen, _ = screen.Update(sample(t, 3))
	text += "\n---\n" + screen.View()
	press("p")
	screen, _ = screen.Update(sample(t, 4))
	screen, _ = screen.Update(tea.WindowSizeMsg{Width: 60, Height: 5})
	press("jjj")
	text += "\n---\n" + screen.View()
	press("k")
	text += "\n---\n" + screen.View() + "\n"
	screen, _ = screen.Update(tea.WindowSizeMsg{Width: 80, Height: 12})
	press("lll")
	text += "---\n" + screen.View()
	press("llllllllllllllll")
	text += "\n---\n" + screen.View()
	screen, _ = screen.Update(tea.WindowSizeMsg{Width: 80, Height: 50})
	press("?")
	text += "\n---\n" + screen.View() + "\n"
	press("?")
	golden(t, "screen.txt", text)
	cmd := press("q")
	if _, quit := cmd().(tea.QuitMsg); !quit {
		t.Error("q does not end it")
	}
}

// TestNumbers: rates and times fit their columns.
func TestNumbers(t *testing.T) {
	for r, want := range map[Rate]string{0: "0", 0.25: "0.2", 9.99: "10.0", 12: "12", 999.4: "999", 999.6: "1.0k", 9949: "9.9k", 9960: "10k", 123456: "123k", 1.5e9: "1.5G", 1e30: "much", -1: "-1.0", Rate(math.Inf(1)): "-"} {
		if have := r.String(); have != want {
			t.Errorf("%g: %q, want %q", float64(r), have, want)
		}
	}
	for s, want := range map[float64]string{0: "-", 15e-6: "15us", 0.25: "250ms", 12.34: "12.3s", 1234: "1234s", 1e12: "99999s"} {
		if have := seconds(s); have != want {
			t.Errorf("%g: %q, want %q", s, have, want)
		}
	}
}

// FuzzRead: whatever a source says neither panics nor reaches the terminal as it is.
func FuzzRead(f *testing.F) {
	heat, sort := texts(1)
	f.Add([]byte(heat))
	f.Add([]byte(sort))
	f.Add([]byte("bobnet_nic_info{interface=\"\x1b[2J\",port=\"1\"} 1\nbobnet_nic_virtual_interfaces NaN\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Sample
		_ = s.Read("x", nil, bytes.NewReader(text)) // as far as it goes
		var b bytes.Buffer
		v := NewView(&s, &s)
		if err := v.Write(&b); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(b.String(), func(c rune) bool { return c != '\n' && c < ' ' || c == 0x7f }) {
			t.Errorf("%q has control characters", &b)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNames: the metrics that are read are ones that programs serve, by their reference.
func TestNames(t *testing.T) {
	reference, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := append(slices.Collect(maps.Keys(ofNIC)), slices.Collect(maps.Keys(ofVI))...)
	for _, name := range append(names, "bobnet_nic_info", "bobnet_vi_info") {
		if !strings.Contains(string(reference), "| `"+name+"` |") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
}

// TestSegmentGone: an interface that vanishes between two looks is an error of the second look, and a
// note of its sample.
func TestSegmentGone(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	station := w.Station("q0")
	w.Go("top", func() {
		s := OpenSegment(t.Context(), vipl.Config{Link: station})
		defer s.Close()
		first, second := new(Sample), new(Sample)
		if err := s.Take(t.Context(), first); !s.Open() || err != nil || len(first.Notes) > 0 {
			t.Errorf("the first look ends with %v and notes %q, want neither", err, first.Notes)
		}
		w.Kill(station)
		if err := s.Take(t.Context(), second); err == nil || errors.Is(err, vipl.ErrTimeout) || len(second.Notes) != 1 {
			t.Errorf("the look after the interface is gone ends with %v and notes %q, want an error and one note", err, second.Notes)
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
