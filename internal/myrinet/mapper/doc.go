// Package mapper discovers the topology of a Myrinet and gives its cards routes (VNT, sections 2
// and 3.4, figure 3; for the paper see package myrinet). A fabric may have at most 256 hosts. Times
// are nanoseconds, lengths are bytes.
//
// # Election
//
// Each host has an Agent. All agents answer probes and receive routes. One of them, the leader,
// maps the fabric repeatedly, with a pause of myrinet.MapperOptions.Period, and writes routes to
// all cards. A host becomes leader if it has received nothing from a leader for three periods plus a
// random time of up to two periods, or after its start for one period plus up to one. If two hosts
// map the same network, the one with the lower identity continues. If a leader has given way to a
// host that it knows only from others, and that host stays silent, it does not do so again
// (TestLiar).
//
// A host with myrinet.MapperOptions.Observe maps only for itself: others answer it, and do not
// follow it. It writes no routes, and receives its own from the leader like all others.
//
// # Exploration
//
// Switches are anonymous, and turns are relative. So a switch is identified by a route that leads
// to it, and its ports by their offsets from the port at which that route enters.
//
//	r 0 back(r)    comes back if r leads to a switch
//	r              is answered, along back(r), if r leads to a host, with its identity
//	r t back(q)    comes back if r and q lead to one switch, and enter it t ports apart
//
// The mapper probes all ports of a new switch. Then it compares each link whose other end is
// unknown with all other such ends: the cable leads to one of them, or to a new switch. A probe
// that comes back is proof. A probe that does not is weak evidence: probes turn where no route
// does, so they can deadlock, be broken or be lost. The mapper sends each one up to Tries times.
// Each try has four times the timeout of the one before, and uses another route to the switch if
// several are known. The timeout adapts to the time that answers take. By default one probe is in
// flight at a time, because several could deadlock with each other. If the inputs of a fabric can
// hold several packets (myrinet.MapperOptions.Probes), probes go in parallel, because most of the
// mapping time is spent on waiting for probes that do not come back. If a lost probe makes a known
// switch look new, its hosts identify it. Where that is impossible, the results contradict each
// other, and mapping starts again.
//
// # Mapping under load
//
// On a busy fabric or busy hosts, probes can be lost or answered late. So the mapper keeps routes
// until it knows that they are wrong:
//
//   - An answer to any try counts. An answer after the mapper has given up makes it map again, with
//     longer timeouts (Stats.Restarts).
//   - If something is missing that was present the last time, the mapper maps again before it
//     believes that (Stats.Doubts).
//   - If a host is still missing, the mapper sends it a request over its known route. Packets on
//     routes cannot deadlock. If the host answers, the map is incomplete, and the routes stay
//     (Stats.Kept).
//   - If the mapper's own host had no CPU for a while, the mapper first reads what has arrived in
//     the meantime, and then decides which probes are unanswered.
//
// There are at most 2 probes for each port of a switch, and one for each pair of ends of cables
// between switches. Their number grows with the square of the number of switches, as for the
// published algorithm. TestFigure3 prints it for the 40 switches of figure 3. The map does not
// depend on the host that makes it, so a new leader writes the same routes.
//
// # Routes
//
// Packets cannot deadlock if the links that they pass do not wait for each other in a ring. Turns
// from one link to the next are permitted one by one, as long as they close no ring: first those of
// a tree that joins all hosts, then those on the shortest paths of the most pairs of hosts (see
// type turns). Among the permitted routes with the fewest switches, each pair of hosts gets the one
// whose most used link has the fewest routes. So routes use all spines of a fat tree evenly;
// TestBisection prints the share of each cable. Deadlocks checks any set of tables.
//
// While old and new routes are in use at the same time, both together must be free of deadlock. The
// leader knows the routes of each host: it compares the digest that the host reports with the
// tables that it has written. If old and new routes together could deadlock, or if it does not know
// the old ones, it first orders those hosts to use no routes. It cannot see a host that has old
// routes and that it cannot reach, or a link that comes back while routes are written. In these
// cases packets can deadlock until the next mapping, and the fabric breaks them. Each host's table
// is written in parts of about 1 KiB, which the host confirms. It does not use a table with missing
// parts.
//
// # Security
//
// Myrinet has no secrets. Messages carry a token, so that only a host that has seen a message of
// the mapper can answer it; others are dropped and counted. But a host that answers with another
// host's identity is on the map if it is found first, and receives the other's packets. This is
// counted (Stats.Twice) and logged. A host that claims a low identity and maps is followed. It can
// give wrong routes to all hosts, so that packets get lost, and nothing else: a host remembers no
// more of it than one table and two identities. A host that reports a leader that does not exist
// delays mapping by some periods.
//
// # Virtual time and live
//
// An Agent has no clock, starts no goroutine, and sends nothing by itself: time and packets are
// arguments, and packets are results. Host drives an agent on a port of a simulated fabric, and
// Network a whole topology of them. On a card, the driver of the card calls Receive, Packet and
// Poll; RouteTable is the card's table of routes.
package mapper
