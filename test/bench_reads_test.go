package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/lab"
)

// readsCount is how many reads the C program does of each kind.
const readsCount = 100_000

// BenchmarkReads measures what a blocking read of Split-C takes by a layer, alone and while
// the other rank reads, too, and the same of testdata/reads.c, a C program that does nothing
// else with packet sockets over the same kind of link, in turns. It reports the medians, and
// the ratios of both ways to one way:
//
//	go test ./test -run '^$' -bench Reads -benchtime 5x
func BenchmarkReads(b *testing.B) {
	asRoot(b)
	reads := ctest.Plain(b, "testdata/reads.c")
	bobnet := filepath.Join(commands(b), "bobnet")
	l := newLab(b, lab.Config{N: 2})
	for _, layer := range []string{"am", "reliable", "unreliable", "rdma"} {
		b.Run(layer, func(b *testing.B) {
			var times [4][]float64
			for b.Loop() {
				one, both := readsByLayer(b, bobnet, layer)
				for i, t := range [...]float64{one, both, readsInC(b, l, reads, "answers"), readsInC(b, l, reads, "both")} {
					times[i] = append(times[i], t)
				}
			}
			var m [4]float64
			for i, name := range [...]string{"ns", "both-ns", "c-ns", "c-both-ns"} {
				m[i] = median(times[i])
				b.ReportMetric(m[i], name)
			}
			b.ReportMetric(0, "ns/op") // of starting processes: of no interest
			b.ReportMetric(m[1]/m[0], "both/one")
			b.ReportMetric(m[3]/m[2], "c-both/one")
		})
	}
}

// readsByLayer returns the nanoseconds of a read, one way and both ways.
func readsByLayer(b *testing.B, bobnet, layer string) (one, both float64) {
	b.Helper()
	cmd := exec.Command(bobnet, "perf", "--local", "--wait", "spin", "--rounds", "3", "--stacks", "splitc", "--layer", layer, "--tests", "primitives", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct {
			Kind string
			P50  float64 `json:"p50_us"`
		}
		switch err := d.Decode(&m); {
		case err == io.EOF && one > 0 && both > 0:
			return one, both
		case err != nil:
			b.Fatalf("%v\n%s", err, out)
		}
		switch m.Kind {
		case "read":
			one = m.P50 * 1e3
		case "read two-way":
			both = m.P50 * 1e3
		}
	}
}

// readsInC returns the nanoseconds of a read of the C program, whose other end answers, or both.
func readsInC(b *testing.B, l *lab.Lab, program, what string) float64 {
	b.Helper()
	argv := func(rank int, what string) []string {
		return []string{program, lab.Interface, l.MAC(1 - rank).String(), what, fmt.Sprint(readsCount)}
	}
	other := exec.Command(program)
	other.Args = argv(1, what)
	said, err := other.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p, err := l.Start(1, other)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		p.Signal(9)
		<-p.Done()
	}()
	if _, err := io.ReadFull(said, make([]byte, len("ready\n"))); err != nil {
		b.Fatal(err)
	}
	out, code := in(b, l, 0, nil, argv(0, "asks")...)
	ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if code != 0 || err != nil {
		b.Fatalf("exit code %d: %s", code, out)
	}
	return ns
}
