package perf

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestUCX measures each test by UCX's benchmark, twice.
func TestUCX(t *testing.T) {
	program, err := FindUCX()
	if err != nil {
		need.Skip(t, "%v", err)
	}
	plan := Plan{Stacks: []string{ucxName}, Tests: []string{Latency, Bandwidth, Rate}, Sizes: []int{64, 50_001}, Links: []string{linkShm}, UCX: program}
	cases := plan.Cases(65535)
	if len(cases) != 6 {
		t.Fatalf("%d cases, want 3 tests of 2 sizes: %v", len(cases), cases)
	}
	for _, c := range cases {
		client, server := ucxPair(t, c, program)
		for range 2 {
			const messages = 100
			served := make(chan error, 1)
			go func() { served <- server.Echo(t.Context(), messages) }()
			if timed(c.Test) {
				rtt := make([]int64, messages)
				if err := client.PingPong(t.Context(), rtt); err != nil || slices.Min(rtt) <= 0 {
					t.Fatalf("%v: round trips of %v, %v", c, rtt, err)
				}
			} else if n, err := client.Stream(t.Context(), messages); err != nil || n != messages || client.(*ucxConn).took() <= 0 {
				t.Fatalf("%v: %d messages in %v, %v", c, n, client.(*ucxConn).took(), err)
			}
			if err := <-served; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ucxPair opens both ends of a case.
func ucxPair(t *testing.T, c Case, program string) (client, server Conn) {
	t.Helper()
	a, b := controlPair(t)
	halves := [2]*Half{NewHalf("", netip.MustParseAddr("127.0.0.1"), a), NewHalf("", netip.MustParseAddr("127.0.0.1"), b)}
	halves[1].server = true
	var conns [2]Conn
	errs := make(chan error)
	for i, h := range halves {
		h.UCX = program
		go func() {
			var err error
			conns[i], err = ucxStack{}.Open(t.Context(), h, c)
			errs <- err
		}()
	}
	for range halves {
		if err := <-errs; err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
	return conns[0], conns[1]
}

// TestNoUCX: without the benchmark no plan has the stack, and the error names the package.
func TestNoUCX(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindUCX(); err == nil || !strings.Contains(err.Error(), "apt-get install ucx-utils") {
		t.Errorf("FindUCX returns %v", err)
	}
	p := Plan{Stacks: []string{ucxName}, Tests: []string{Latency}, Sizes: []int{64}, Links: []string{linkShm}}
	if cases := p.Cases(65535); len(cases) != 0 {
		t.Errorf("cases without the program: %v", cases)
	}
}

// TestParseUCX reads the benchmark's output.
func TestParseUCX(t *testing.T) {
	const heading = "|     Test     | # iterations | 50.0%ile | average | overall |\n"
	f, err := parseUCX([]byte(heading + "   200000      0.160     0.195     0.197      312.70     312.70     5123221     5123221\n"))
	if want := (ucxFigures{median: 0.160, mean: 0.195}); err != nil || f != want {
		t.Errorf("parsed %+v, %v, want %+v", f, err, want)
	}
	for _, text := range []string{"", heading, "200000 0.160", "200000 a b", "200000 0.1 b"} {
		if f, err := parseUCX([]byte(text)); err == nil {
			t.Errorf("parsed %q as %+v", text, f)
		}
	}
}
