package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"

	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// A program shows its NIC to Prometheus, which asks for the page as this one does.
// Programs that have an HTTP server of their own give the collector to their
// registry instead.
func Example() {
	nic, err := vipl.Open(context.Background(), &vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("eth0"), Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer nic.Close()
	collector := metrics.NewCollector(nil)
	collector.WatchNIC(nic) // and WatchRank of a communicator, WatchNode of active messages
	server, err := metrics.Serve("localhost:0", collector)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	page, err := http.Get(fmt.Sprintf("http://%v/metrics", server.Addr()))
	if err != nil {
		log.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "bobnet_nic_transmit_bytes_total{") {
			fmt.Print(line)
		}
	}
	// Output: bobnet_nic_transmit_bytes_total{interface="eth0",port="1"} 0
}
