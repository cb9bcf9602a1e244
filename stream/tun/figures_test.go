package tun_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/ctest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream/tun"
)

// BenchmarkTCP has iperf3 carry TCP for a second by the plain link, at MTU 9000, for one
// through a tun on it, and for one through testdata/relay.c, which is a tunnel without any
// protocol, in turns, and reports the medians and their ratios to the plain link's:
//
//	go test ./stream/tun -run '^$' -bench TCP -benchtime 5x
func BenchmarkTCP(b *testing.B) {
	const mtu = 9000
	p, _ := pair(b, mtu, tun.Config{})
	relay := ctest.Plain(b, "testdata/relay.c")
	for side := range 2 {
		must := func(args ...string) {
			if out, err := run(b, p, side, "ip", args...); err != nil {
				b.Fatalf("ip %v: %v\n%s", args, err, out)
			}
		}
		startRelay(b, p, side, relay, mtu)
		must("addr", "add", fmt.Sprintf("192.0.2.%d/24", side+1), "dev", vethtest.Name)
		must("addr", "add", fmt.Sprintf("198.51.100.%d/24", side+1), "dev", relayDevice)
		must("link", "set", relayDevice, "mtu", fmt.Sprint(tun.MaxMTU), "up")
	}
	ways := []struct{ name, address string }{{"plain", "192.0.2.2"}, {"tun", "10.9.0.2"}, {"relay", "198.51.100.2"}}
	rates := make([][]float64, len(ways))
	for b.Loop() {
		for i, w := range ways {
			result, err := iperf(b, p, w.address, "-t", "1")
			if err != nil {
				b.Fatalf("%s: %v", w.name, err)
			}
			rates[i] = append(rates[i], result.End.SumReceived.BitsPerSecond)
		}
	}
	for i, w := range ways {
		slices.Sort(rates[i])
		median := rates[i][len(rates[i])/2]
		b.ReportMetric(median/1e6, w.name+"-Mbit/s")
		if i > 0 {
			b.ReportMetric(median/(rates[0][len(rates[0])/2]), w.name+"/plain")
		}
	}
}

// relayDevice is the name of the relays' interfaces.
const relayDevice = "relay0"

// startRelay starts a relay on a side.
func startRelay(b *testing.B, p *vethtest.Pair, side int, program string, mtu int) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), program, relayDevice, vethtest.Name, fmt.Sprint(mtu))
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.In(side, cmd.Start); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Wait() }) // its context has ended before
	heard(b, out, "ready")
}
