package main

import (
	"os"

	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// watchFor dumps what perf opens on SIGQUIT, and serves its metrics at addr if
// that is not empty, until done is called. NICs come and go with the samples.
func watchFor(addr string) (watch perf.Watcher, done func(), err error) {
	collector := metrics.NewCollector(nil)
	done = collector.DumpOnQuit(os.Stderr)
	if addr != "" {
		server, err := metrics.Serve(addr, collector)
		if err != nil {
			done()
			return nil, nil, err
		}
		stop := done
		done = func() {
			server.Close()
			stop()
		}
	}
	watch = func(nic *vipl.NIC, comm *mplite.Comm) func() {
		if nic != nil {
			return collector.WatchNIC(nic)
		}
		return collector.WatchComm(comm)
	}
	return watch, done, nil
}
