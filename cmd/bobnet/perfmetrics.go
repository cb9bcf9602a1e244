package main

import (
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/metrics"
)

// watchFor dumps what perf or ping opens on SIGQUIT, tells the node's agent of it, and serves its metrics at
// addr if that is not empty, until done is called. perf's NICs come and go with
// the samples.
func watchFor(addr string) (watch perf.Watcher, done func(), err error) {
	collector := metrics.NewCollector(nil)
	if done, err = collector.Instrument(addr); err != nil {
		return nil, nil, err
	}
	watch = func(o perf.Opened) func() {
		var forget []func()
		if o.NIC != nil {
			forget = append(forget, collector.WatchNIC(o.NIC))
		}
		if o.Comm != nil {
			forget = append(forget, collector.WatchComm(o.Comm))
		}
		if o.Node != nil {
			forget = append(forget, collector.WatchNode(o.Node))
		}
		if o.Process != nil {
			forget = append(forget, collector.WatchProcess(o.Process))
		}
		if o.World != nil {
			forget = append(forget, collector.WatchWorld(o.World))
		}
		if o.Server != nil {
			forget = append(forget, collector.WatchRPC(o.Server))
		}
		return func() {
			for _, f := range forget {
				f()
			}
		}
	}
	return watch, done, nil
}
