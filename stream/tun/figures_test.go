package tun_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream/tun"
)

// BenchmarkTCP has iperf3 carry TCP for a second by the plain link, at MTU 9000, and for one
// through a tun on it, in turns, and reports the medians and their ratio:
//
//	go test ./stream/tun -run '^$' -bench TCP -benchtime 5x
func BenchmarkTCP(b *testing.B) {
	p, _ := pair(b, 9000, tun.Config{})
	for side := range 2 {
		if out, err := run(b, p, side, "ip", "addr", "add", fmt.Sprintf("192.0.2.%d/24", side+1), "dev", vethtest.Name); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	addresses := []string{"192.0.2.2", "10.9.0.2"}
	var rates [2][]float64
	for b.Loop() {
		for i, address := range addresses {
			result, err := iperf(b, p, address, "-t", "1")
			if err != nil {
				b.Fatal(err)
			}
			rates[i] = append(rates[i], result.End.SumReceived.BitsPerSecond)
		}
	}
	var medians [2]float64
	for i := range rates {
		slices.Sort(rates[i])
		medians[i] = rates[i][len(rates[i])/2]
	}
	b.ReportMetric(medians[0]/1e6, "plain-Mbit/s")
	b.ReportMetric(medians[1]/1e6, "tun-Mbit/s")
	b.ReportMetric(medians[1]/medians[0], "ratio")
}
