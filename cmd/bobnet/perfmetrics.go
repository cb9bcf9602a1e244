package main

import (
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// watchFor serves the metrics of what perf opens at addr, until done is
// called; "" serves none. NICs come and go with the samples.
func watchFor(addr string) (watch perf.Watcher, done func(), err error) {
	if addr == "" {
		return nil, func() {}, nil
	}
	collector := metrics.NewCollector(nil)
	server, err := metrics.Serve(addr, collector)
	if err != nil {
		return nil, nil, err
	}
	watch = func(nic *vipl.NIC, comm *mplite.Comm) func() {
		if nic != nil {
			return collector.WatchNIC(nic)
		}
		return collector.WatchComm(comm)
	}
	return watch, func() { server.Close() }, nil
}
