// Package metrics exports Bobnet's counters to Prometheus, and prints the state of NICs,
// connections and ranks in readable form.
//
//	c := metrics.NewCollector(nil)
//	c.WatchNIC(nic)                    // or WatchRank(comm), WatchNode(node), ...
//	stop, err := c.Instrument(":9464") // serves metrics and dumps, prints a dump on SIGQUIT
//	defer stop()
//
// Serve defines the meaning of the address: ":9464" serves this host only. A program with a
// Prometheus registry of its own registers the Collector there instead:
//
//	prometheus.MustRegister(c)
//
// # Labels
//
// docs/metrics.md lists every metric with its labels; docs/grafana.json is a dashboard.
//
//	of                        labels
//	NIC                       interface; port, the lowest of its range (#2 follows for a
//	                          second NIC of the process with the same port)
//	VI                        the labels of its NIC, and vi, its port
//	process of VMMC           process: node and number
//	server of RPC             server: rpc, rpc#2, ...; calls: program, version, status
//	process of Split-C        layer, processor; operations: kind
//	host of streams           host: the address of its NIC; streams are added up
//	daemon of VMMC            node
//	card of emulated Myrinet  card: its interface
//	switch of this Myrinet    switch, port, interface (SwitchCollector)
//
// The number of time series is bounded: VIs beyond Config.MaxVIs are added up under
// vi="other", and RPC programs beyond 32 are added up. Peers' addresses appear only in
// bobnet_vi_info, under the same bound.
//
// # Dumps
//
// If a job hangs, send SIGQUIT to its processes (DumpOnQuit) or read /debug/bobnet (Serve).
// The dump shows what each NIC, VI and rank waits for, every unacknowledged message with
// its age, and the pending work of every other object that the Collector watches.
//
//	defer c.DumpOnQuit(os.Stderr)()
//
// An agent of the node (bobnet agent) serves metrics and dumps of all programs that report to
// it at one address:
//
//	defer c.AnswerAgent()()
//
// Instrument does all three: Serve, DumpOnQuit and AnswerAgent.
package metrics

//go:generate go test -run ^TestReference$ . -args -update

// Notes for maintainers, which go doc does not print.
//
// The other packages count in plain structs and know nothing of Prometheus. This package
// turns snapshots of them into metrics at each scrape. Struct tags of the counters hold the
// names and help texts of the metrics (internal/counters), so a new counter is one field.
