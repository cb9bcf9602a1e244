package perf

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// rpcPair opens a server and a client over the loopback, and closes both at the end.
func rpcPair(t *testing.T, c Case) (client, server Conn) {
	t.Helper()
	return rpcPairBy(t, c, "")
}

// rpcPairBy is rpcPair with a program of libtirpc.
func rpcPairBy(t *testing.T, c Case, program string) (client, server Conn) {
	t.Helper()
	a, b := controlPair(t)
	halves := [2]*Half{NewHalf("", netip.MustParseAddr("127.0.0.1"), a), NewHalf("", netip.MustParseAddr("127.0.0.1"), b)}
	halves[1].server = true
	for _, h := range halves {
		h.Libtirpc = program
	}
	var conns [2]Conn
	errs := make(chan error)
	for i, h := range halves {
		go func() {
			var err error
			conns[i], err = vrpcStack{}.Open(t.Context(), h, c)
			errs <- err
		}()
	}
	for range halves {
		if err := <-errs; err != nil {
			t.Fatalf("%v: %v", c, err)
		}
	}
	t.Cleanup(func() {
		for _, conn := range conns {
			if err := conn.Close(); err != nil {
				t.Errorf("%v: Close: %v", c, err)
			}
		}
	})
	return conns[0], conns[1]
}

// TestRemoteProcedures calls by each carrier, twice in each way.
func TestRemoteProcedures(t *testing.T) {
	plan := Plan{Stacks: []string{"vrpc"}, Tests: []string{Latency, Bandwidth}, Sizes: []int{64, 50_001}, Links: []string{linkShm}, Waits: []string{Block}}
	for _, c := range plan.Cases(1500) {
		client, server := rpcPair(t, c)
		served := make(chan error, 1)
		const times, calls = 2, 5
		go func() {
			for range times {
				if err := server.Echo(t.Context(), calls); err != nil {
					served <- err
					return
				}
				if err := server.Sink(t.Context(), calls); err != nil {
					served <- err
					return
				}
			}
			served <- nil
		}()
		for range times {
			rtt := make([]int64, calls)
			if err := client.PingPong(t.Context(), rtt); err != nil || slices.Min(rtt) <= 0 {
				t.Fatalf("%v: round trips of %v, %v", c, rtt, err)
			}
			if n, err := client.Stream(t.Context(), calls); err != nil || n != calls {
				t.Fatalf("%v: %d messages, %v", c, n, err)
			}
		}
		if err := <-served; err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if got := len(client.(*rpcConn).res.data); got != c.Size { // what was left in place, too, has its length
			t.Errorf("%v: the last reply has %d bytes", c, got)
		}
	}
}

// TestPlanOfVRPC: the null procedure is measured once, what does not fit into a datagram
// not by UDP, and only latency and bandwidth.
func TestPlanOfVRPC(t *testing.T) {
	p := Plan{Stacks: []string{"vrpc"}, Tests: Tests, Sizes: []int{64, 65536}, Waits: []string{Block}}
	var got []string
	for _, c := range p.Cases(1500) {
		got = append(got, c.String())
	}
	if want := []string{
		"vrpc latency 0 B, vmmc, delivery, block, ring, MTU 1500",
		"vrpc latency 0 B, tcp, block, MTU 1500", "vrpc latency 0 B, udp, block, MTU 1500",
		"vrpc latency 64 B, vmmc, delivery, block, ring, MTU 1500",
		"vrpc latency 64 B, tcp, block, MTU 1500", "vrpc latency 64 B, udp, block, MTU 1500",
		"vrpc latency 65536 B, vmmc, delivery, block, ring, MTU 1500",
		"vrpc latency 65536 B, tcp, block, MTU 1500",
		"vrpc bandwidth 64 B, vmmc, delivery, block, ring, MTU 1500", "vrpc bandwidth 64 B, vmmc-inplace, delivery, block, ring, MTU 1500",
		"vrpc bandwidth 64 B, tcp, block, MTU 1500", "vrpc bandwidth 64 B, udp, block, MTU 1500",
		"vrpc bandwidth 65536 B, vmmc, delivery, block, ring, MTU 1500", "vrpc bandwidth 65536 B, vmmc-inplace, delivery, block, ring, MTU 1500",
		"vrpc bandwidth 65536 B, tcp, block, MTU 1500",
	}; !slices.Equal(got, want) {
		t.Errorf("cases\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const wantRPCTable = `latency, 0 B messages, MTU 1500
     stack  level   wait  p50 us  p99 us  min us  x raw  x tcp  line ns
  vrpc/tcp      -  block   20.00   30.00   10.00      -   1.00       55
  vrpc/udp      -  block   15.00   20.00   10.00      -   0.75       55

`

// TestRemoteProceduresInTables: they are compared with those by TCP, and not with bare TCP;
// calls without a payload have no place on the axis of a plot.
func TestRemoteProceduresInTables(t *testing.T) {
	records := []Record{
		{Case: Case{Stack: "vrpc", Test: Latency, Wait: Block, Mode: "tcp", MTU: 1500}, P50: 20, P99: 30, Min: 10, LineNs: 55},
		{Case: Case{Stack: "vrpc", Test: Latency, Wait: Block, Mode: "udp", MTU: 1500}, P50: 15, P99: 20, Min: 10, LineNs: 55},
	}
	var table strings.Builder
	if err := WriteTable(&table, records); err != nil {
		t.Fatal(err)
	}
	if table.String() != wantRPCTable {
		t.Errorf("table is\n%s\nwant\n%s", table.String(), wantRPCTable)
	}
	if lines := series(records, Latency); len(lines) != 0 {
		t.Errorf("lines %+v", lines)
	}
}
