// Package metrics exports Bobnet's counters to Prometheus.
//
// The other packages count in plain structs and know nothing of Prometheus;
// this one turns snapshots of them into metrics at each scrape. Struct tags of the counters
// hold the metrics' names and helps (internal/counters), so a new counter is one field.
//
//	c := metrics.NewCollector(nil)
//	c.WatchNIC(nic)
//	c.WatchComm(comm) // or both at once: c.WatchRank(comm)
//	prometheus.MustRegister(c)
//
// or, for a program of its own:
//
//	srv, err := metrics.Serve(":9464", c)
//
// which serves this host alone; see Serve.
//
// # Labels
//
// Metrics of a NIC carry interface and port (the lowest port of its range; with
// #2 behind it for a second NIC of the process with the same, by another driver
// or with another EtherType), those of a VI carry vi, its port, besides. A NIC with more VIs than
// Config.MaxVIs shows the first so many one by one; the rest are added up
// under vi="other", so that the number of time series is bounded. Peers'
// addresses appear only in the value-less bobnet_vi_info, under the same bound.
// docs/metrics.md lists every metric; docs/grafana.json is a dashboard of them.
//
// A process of VMMC has the label process, its node and number; a server of remote procedures
// server, rpc or rpc#2 and so on, and its calls program, version and status. Programs beyond
// 32 are added up.
//
// A process of Split-C has the labels layer and processor, and its operations kind.
//
// A host of streams has the label host, the address of its NIC. Its streams are added up, however
// many there are.
//
// A daemon of VMMC has the label node.
//
// A card of the emulated fabric has the label card, its interface; the host's mapper has
// that of its card, and only the one that leads has a map.
//
// A switch of the emulated fabric has a collector of its own, SwitchCollector, whose
// metrics carry switch, port (its number), and interface.
//
// # Dumps
//
// When a job hangs, ask it: DumpOnQuit prints on SIGQUIT, and Serve shows at
// /debug/bobnet, what every NIC, VI and rank waits for, with every message that
// has not been acknowledged and its age, and of every node of active messages
// what is under way to each destination, how old the oldest request is and what
// it waits for; of every process of VMMC its exports, importers and notifications, of
// every process of Split-C what it waits for and has done, of every host of streams what
// each stream has to be read and sent, and of
// every server of remote procedures what became of its calls. Of every card of the emulated
// fabric they say who has its memory, what its cable carries, and what the mapper has found.
//
//	defer c.DumpOnQuit(os.Stderr)()
//
// Where the node has an agent (bobnet agent), it shows both of all programs at one address that
// tell it:
//
//	defer c.AnswerAgent()()
//
// Instrument does all three, as the commands and examples of this module do.
package metrics

//go:generate go test -run ^TestReference$ . -args -update
