// Package daemon is the VMMC daemon of a node: `bobnet daemon`. It matches imports with
// the exports of other processes and nodes, says whose a process is that wants to import,
// and tells who has died. No send passes it.
//
//	d, err := daemon.Open(ctx, &daemon.Config{VIPL: vipl.Config{Interface: "eth0"}})
//	err = d.Run(ctx)
//
// A node is an interface, and has one daemon. Processes of package vmmc find it by
// themselves when they are opened; where none runs they do without, and then policies by
// user refuse everybody.
//
// # Users
//
// The kernel tells the daemon whose each process is (SO_PEERCRED). With each export that
// it finds, an importer gets a ticket, which it shows the exporter; the daemon of the
// exporter's node asks that of the importer's node whose the ticket is. A ticket counts for
// one importer at one exporter, until the import is made. So a user is proven if daemons
// run at both nodes, and as far as the importer's node is to be trusted. Who may send raw
// frames on the segment can speak in the name of any station, daemons included.
//
// A process takes only a daemon of root's, or of its own user.
//
// # Deaths
//
// A process whose connection with the daemon ends without a word has ended. Its daemon
// tells the processes of its node, and the daemons of those nodes with whose processes it
// had to do: what was imported from it fails, and lists of importers lose it, much sooner
// than by Config.PeerTimeout of package vmmc, which remains where a daemon is missing.
//
// # The daemon's own end
//
// Nothing depends on it but new imports, which wait for the next one. A daemon that is
// started again, after kill -9 too, is told by the processes of its node what the last one
// knew. It keeps no state in files. The socket of root's daemon is a file under /run/bobnet, so
// that no other user can take its name; that of another user's has an abstract name.
//
// # Bounds
//
// What the processes of one user have open, in number and in memory, is bounded, and so is what
// all users have. A process that goes beyond is left, and the log says so.
package daemon
