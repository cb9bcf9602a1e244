// Package daemon is the VMMC daemon of a node: `bobnet daemon`. It finds the exporters for imports,
// proves which user an importing process belongs to, and reports dead processes. Data do not pass
// through it.
//
//	d, err := daemon.Open(ctx, &daemon.Config{VIPL: vipl.Config{Interface: "eth0"}})
//	err = d.Run(ctx)
//
// A node is a network interface and has one daemon. Processes of package vmmc find the daemon
// automatically when they open. Without a daemon they work too, but policies by user then refuse
// every importer.
//
// # Users
//
// The kernel reports the user of each process to the daemon (SO_PEERCRED). For each export that it
// finds, the daemon gives the importer a ticket. The importer shows the ticket to the exporter. The
// daemon of the exporter's node asks the daemon of the importer's node for the ticket's user. A
// ticket is valid for one importer at one exporter, until the import is complete.
//
// So a user is proven if daemons run on both nodes, and only as far as you trust the importer's
// node. Any host that can send raw frames on the segment can spoof other hosts, daemons included.
//
// A process accepts only a daemon of root or of its own user.
//
// # Deaths
//
// If a process's connection to the daemon ends without a Leave message, the process has died. Its
// daemon informs the processes of the node, and the daemons of all nodes with which the process
// communicated. Imports from it then fail, and lists of importers lose it. This is much faster than
// Config.PeerTimeout of package vmmc, which still applies where no daemon runs.
//
// # Restarting the daemon
//
// Only new imports depend on the daemon; they wait for the next one. A restarted daemon, also after
// kill -9, receives the state of the last one from the processes of its node. It keeps no state in
// files. The socket of root's daemon is a file under /run/bobnet, so that no other user can take
// its name. The socket of another user's daemon has an abstract name.
//
// # Limits
//
// The daemon limits how much the processes of one user, and of all users, may have open, in number
// and in memory. It disconnects a process that exceeds a limit, and logs that.
package daemon
