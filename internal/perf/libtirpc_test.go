package perf

import (
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestLibtirpc calls a C server by a C client, twice, with and without a payload.
func TestLibtirpc(t *testing.T) {
	program, err := BuildLibtirpc(t.Context(), t.TempDir())
	if err != nil {
		need.Skip(t, "%v", err)
	}
	plan := Plan{Stacks: []string{"vrpc"}, Libtirpc: program}
	cases := append(libtirpcCases(&plan, Latency, 1500, 0), libtirpcCases(&plan, Latency, 1500, 100_001)...)
	for _, c := range cases {
		client, server := rpcPairBy(t, c, program)
		for range 2 {
			rtt := make([]int64, 7)
			if err := client.PingPong(t.Context(), rtt); err != nil || slices.Min(rtt) <= 0 {
				t.Fatalf("%v: round trips of %v, %v", c, rtt, err)
			}
			if err := server.Echo(t.Context(), len(rtt)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLibtirpcEnds: a client whose server has ended says so.
func TestLibtirpcEnds(t *testing.T) {
	program, err := BuildLibtirpc(t.Context(), t.TempDir())
	if err != nil {
		need.Skip(t, "%v", err)
	}
	plan := Plan{Libtirpc: program}
	client, server := rpcPairBy(t, libtirpcCases(&plan, Latency, 1500, 0)[0], program)
	if err := client.PingPong(t.Context(), make([]int64, 1)); err != nil { // it is connected then
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.PingPong(t.Context(), make([]int64, 3)); err == nil || !strings.Contains(err.Error(), "libtirpc") {
		t.Errorf("PingPong says %v", err)
	}
}

// TestNoLibtirpc: what is missing is said, and calls by libtirpc are in no plan then.
func TestNoLibtirpc(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := BuildLibtirpc(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "apt-get install gcc") {
		t.Errorf("BuildLibtirpc says %v", err)
	}
	p := Plan{Stacks: []string{"vrpc"}, Tests: []string{Latency, Bandwidth}, Sizes: []int{64}, Waits: []string{Block}}
	count := func() (n int) {
		for _, c := range p.Cases(1500) {
			if c.Mode == libtirpc {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d cases without a program", n)
	}
	p.Libtirpc = "program"
	if n := count(); n != 2 {
		t.Errorf("%d cases, want the null procedure and 64 bytes", n)
	}
}

const wantLibtirpcTable = `latency, 0 B messages, MTU 1500
          stack     level   wait  p50 us  p99 us  min us  x raw  x tcp  x libtirpc  line ns
      vrpc/vmmc  delivery  block    8.00   12.00    7.00      -   0.40        0.50       55
       vrpc/tcp         -  block   20.00   30.00   10.00      -   1.00        1.25       55
  vrpc/libtirpc         -  block   16.00   30.00   10.00      -   0.80        1.00       55

`

// TestLibtirpcInTables: the other carriers are compared with it.
func TestLibtirpcInTables(t *testing.T) {
	c := Case{Stack: "vrpc", Test: Latency, Wait: Block, MTU: 1500}
	over := func(mode, level, link string, p50, p99, least float64) Record {
		c.Mode, c.Reliability, c.Link = mode, level, link
		return Record{Case: c, P50: p50, P99: p99, Min: least, LineNs: 55}
	}
	var table strings.Builder
	if err := WriteTable(&table, []Record{
		over("vmmc", "delivery", "ring", 8, 12, 7), over("tcp", "", "", 20, 30, 10), over(libtirpc, "", "", 16, 30, 10),
	}); err != nil {
		t.Fatal(err)
	}
	if table.String() != wantLibtirpcTable {
		t.Errorf("table is\n%s\nwant\n%s", table.String(), wantLibtirpcTable)
	}
}
