// Package metrics exports Bobnet's counters to Prometheus.
//
// The other packages count in plain structs and know nothing of Prometheus;
// this one turns snapshots of them into metrics at each scrape.
//
//	c := metrics.NewCollector(nil)
//	c.WatchNIC(nic)
//	c.WatchComm(comm)
//	prometheus.MustRegister(c)
//
// or, for a program of its own:
//
//	srv, err := metrics.Serve(":9464", c)
//
// # Labels
//
// Metrics of a NIC carry interface and port (the lowest port of its range),
// those of a VI carry vi, its port, besides. A NIC with more VIs than
// Config.MaxVIs shows the first so many one by one; the rest are added up
// under vi="other", so that the number of time series is bounded. Peers'
// addresses appear only in the value-less bobnet_vi_info, under the same bound.
package metrics
