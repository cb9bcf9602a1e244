package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/seal"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// keyMetrics is the port that the stations of TestKey serve their metrics on.
const keyMetrics = 9023

// keyed is a segment of four stations: 0 and 1 have a key, 2 has none, and 3 has another.
type keyed struct {
	*lab.Lab
	bobnet string
	env    [4][]string
}

// The stations without the key.
var strangers = map[int]string{2: "without a key", 3: "with another key"}

func newKeyed(t *testing.T) *keyed {
	dir := t.TempDir()
	var files [2]string
	for i := range files {
		files[i] = filepath.Join(dir, fmt.Sprintf("%d.key", i))
		if err := os.WriteFile(files[i], []byte(seal.NewKey().Text()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func(file string) []string { return []string{vipl.EnvKeyFile + "=" + file} }
	return &keyed{newLab(t, lab.Config{N: 4}), filepath.Join(commands(t), "bobnet"), [4][]string{key(files[0]), key(files[0]), nil, key(files[1])}}
}

// call runs bobnet at a station, and returns what it printed and its exit code.
func (k *keyed) call(t *testing.T, station int, args ...string) (out string, code int) {
	t.Helper()
	return in(t, k.Lab, station, k.env[station], append([]string{k.bobnet}, args...)...)
}

// listen has a station serve bobnet perf, and answer who asks for it, until the test ends. It
// returns what others are told to measure against: its address.
func (k *keyed) listen(t *testing.T, station int) (address string) {
	t.Helper()
	cmd := &exec.Cmd{Path: k.bobnet, Args: []string{"bobnet", "perf", "--listen", "--metrics", fmt.Sprintf(":%d", keyMetrics)}}
	p := playOne(t, k.Lab, station, cmd, k.env[station]...)
	t.Cleanup(func() {
		p.Signal(unix.SIGINT)
		<-p.Done()
	})
	line := p.line(t)
	m := regexp.MustCompile(`^listening at (\S+);`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("station %d says %q", station, line)
	}
	return m[1]
}

// count returns a counter of what a station serves: the sum over all its labels that have
// this text in them.
func (k *keyed) count(t *testing.T, station int, name, labels string) (sum float64) {
	t.Helper()
	conn, err := k.Dial(t.Context(), station, keyMetrics)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
	resp, err := client.Get("http://station/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(body(t, resp)) {
		var value float64
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, labels) {
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}

// TestKey runs programs with a key between two stations, while others of the segment, one
// without a key and one with another, look for them, ask them, connect with them and want to
// be ranks of their job. They get nothing; the programs with the key find each other, and not
// those, and do what they do; and what was dropped is counted.
func TestKey(t *testing.T) {
	t.Parallel() // it waits for time-outs
	k := newKeyed(t)
	address := k.listen(t, 0)
	for station := range strangers {
		k.listen(t, station)
	}
	mac := k.MAC(0).String()
	var floods []*player // which ask as fast as they can, all the time
	for station := range strangers {
		cmd := &exec.Cmd{Path: k.bobnet, Args: []string{"bobnet", "ping", "--interval", "1ms", "-W", "1ms", mac}}
		p := playOne(t, k.Lab, station, cmd, k.env[station]...)
		floods = append(floods, p)
		p.line(t) // it has begun
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	k.measure(t, "perf/"+host) // as all three call themselves
	var all sync.WaitGroup
	for station := range strangers {
		all.Go(func() { k.ask(t, station, address) })
	}
	all.Wait()
	k.job(t)
	for i, p := range floods {
		p.Signal(unix.SIGINT)
		<-p.Done()
		for line, ok, _ := p.lines.take(); ok; line, ok, _ = p.lines.take() {
			if strings.Contains(line, " time=") {
				t.Fatalf("a ping of stranger %d was answered: %s", i, line)
			}
		}
	}
	k.counted(t)
}

// measure has the station 1 measure against who has a name.
func (k *keyed) measure(t *testing.T, name string) {
	t.Helper()
	out, code := k.call(t, 1, "perf", "--to", name, "--stacks", "vipl", "--tests", "latency", "--reliability", "delivery", "--wait", "block",
		"--rounds", "1", "--sample", "10ms", "--json")
	if code != 0 || !strings.Contains(out, `"stack":"vipl"`) {
		t.Errorf("perf with the key: exit code %d, and it says:\n%s", code, out)
	}
}

// ask has a stranger ask for, and connect with, the station 0.
func (k *keyed) ask(t *testing.T, station int, address string) {
	why := []string{2: "this NIC has no key: set", 3: "it has another key"}[station]
	for _, call := range []struct {
		args []string
		says string
	}{
		{[]string{"ping", "-c", "2", k.MAC(0).String()}, "2 sent, 0 answered"},
		{[]string{"ping", "-c", "2", address}, "with the same EtherType and key?"},
		{[]string{"perf", "--to", address, "--stacks", "vipl", "--tests", "latency"}, why},
	} {
		if out, code := k.call(t, station, call.args...); code != 1 || !strings.Contains(out, call.says) {
			t.Errorf("bobnet %v %s: exit code %d, want 1 and %q:\n%s", call.args, strangers[station], code, call.says, out)
		}
	}
}

// job has a rank with the key wait for another, which strangers say they are before that comes.
func (k *keyed) job(t *testing.T) {
	t.Helper()
	heat := filepath.Join(filepath.Dir(k.bobnet), "heat")
	rank := func(rank int, timeout string) []string {
		return []string{"env", job.EnvJob + "=keyed", fmt.Sprintf("%s=%d", job.EnvRank, rank), job.EnvSize + "=2", vipl.EnvTimeout + "=" + timeout,
			heat, "-steps", "50", "-out", ""}
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	first := playOne(t, k.Lab, 0, &exec.Cmd{Path: env, Args: rank(0, "50s")}, k.env[0]...)
	var all sync.WaitGroup
	for station, who := range strangers {
		all.Go(func() {
			if out, code := in(t, k.Lab, station, k.env[station], rank(1, "3s")...); code != 1 || !strings.Contains(out, "rank 0") {
				t.Errorf("a rank %s: exit code %d, and it says:\n%s", who, code, out)
			}
		})
	}
	all.Wait()
	select {
	case <-first.Done():
		t.Errorf("the rank with the key ends with code %d because of strangers", first.Code())
	default:
	}
	if out, code := in(t, k.Lab, 1, k.env[1], rank(1, "50s")...); code != 0 {
		t.Errorf("the other rank with the key: exit code %d, and it says:\n%s", code, out)
	}
	first.end(t)
}

// counted wants that stations count what they could not open, by its reason.
func (k *keyed) counted(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		station      int
		name, labels string
	}{
		{0, "bobnet_seal_dropped_frames_total", `reason="unsealed"`},
		{0, "bobnet_seal_dropped_frames_total", `reason="other_key"`},
		{0, "bobnet_seal_receive_frames_total", ""},
		{2, "bobnet_nic_receive_dropped_frames_total", `reason="sealed"`},
		{3, "bobnet_seal_dropped_frames_total", `reason="other_key"`},
	} {
		if n := k.count(t, c.station, c.name, c.labels); n == 0 {
			t.Errorf("station %d counts no %s{%s}", c.station, c.name, c.labels)
		}
	}
	for station, who := range strangers {
		if n := k.count(t, station, "bobnet_seal_receive_frames_total", ""); n > 0 {
			t.Errorf("the station %s has opened %v frames", who, n)
		}
	}
}
