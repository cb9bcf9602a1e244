// Package mapper finds out what a Myrinet consists of, and gives its cards routes (VNT,
// sections 2 and 3.4, figure 3; for the paper see package myrinet). Hosts may be at most
// 256. Times are nanoseconds, lengths octets.
//
// # Who maps
//
// Each host has an Agent. All answer probes and take routes; one of them, the leader,
// maps again and again, with a pause of myrinet.MapperOptions.Period, and writes routes to all cards.
// A host that has heard nothing of a leader for three periods and a random time of up to
// two more, or since its beginning for one period and up to one more, becomes leader itself. Of two that map in one network the one with the lower
// identity goes on. A leader that gives way to one that only others have told it of does
// not believe that twice (TestLiar).
//
// A host with myrinet.MapperOptions.Observe maps for itself: others answer it, and do not follow it. It
// writes no routes, and gets its own from the leader, as all do.
//
// # How a fabric is found
//
// Switches are anonymous, and turns relative. So a switch is known by a way that leads
// to it, and its ports by how far they lie from the one by which that way comes in.
//
//	r 0 back(r)    comes back if r leads to a switch
//	r              is answered, along back(r), if r leads to a host, with its identity
//	r t back(q)    comes back if r and q lead to one switch, and come in t ports apart
//
// The mapper probes all ports of a switch that it has found, and then compares each link
// whose other end it does not know with all other such ends: the cable leads to one of
// these, or to a switch that it has not seen. A probe that comes back proves what it
// says. One that does not proves little: probes turn where no route does, so they can
// deadlock, be broken or be lost. Each is sent Tries times, each time with four times as
// much patience and, where several ways lead to the switch, along another one; the
// patience adapts to how long answers take. They go one at a time, because several could
// deadlock among themselves; where the inputs of a fabric hold several of them
// (myrinet.MapperOptions.Probes) they go side by side, because most of a mapping is waiting for what does
// not come back. A switch that was taken for a new one because a probe was lost is
// recognised by its hosts; where that is not possible what was found contradicts itself, and
// mapping begins again.
//
// # Mapping under load
//
// Probes can be lost, or be answered late, because the fabric or the processors are busy. So
// the mapper keeps routes until it knows that they are wrong:
//
//   - An answer counts whichever try it answers. One that comes after the mapper has given up
//     makes it map again, with more patience (Stats.Restarts).
//   - If something is missing that was there the last time, the mapper looks again before it
//     believes that (Stats.Doubts).
//   - A host that is missing still is asked by the route that it has. Packets on routes cannot
//     deadlock. If the host answers, the map is not complete, and routes stay (Stats.Kept).
//   - Where the mapper's own host has had no processor, what has come meanwhile is taken in
//     before anything counts as not answered.
//
// There are at most 2 probes for each port of a switch, and one for each pair of ends of
// cables between switches: the number grows with the square of the number of switches,
// as for the published algorithm. TestFigure3 prints it for the 40 switches of figure 3.
// A map is the same whoever makes it, so that a new leader gives out the same routes.
//
// # Routes
//
// Packets cannot deadlock if the links that they pass do not wait for each other in a ring. Turns
// from one link to the next are permitted one by one, as far as no ring of them closes: first
// those of a tree that joins all hosts, then the ones that are on the shortest paths of the most
// pairs of hosts (see type turns). Of the permitted routes with the fewest switches each pair
// gets the one whose most used link has the fewest routes. So all spines of a fat tree are used,
// and evenly; TestBisection prints the share of each cable. Deadlocks proves of any tables
// that they cannot deadlock.
//
// While old and new routes are in use side by side, both together must be free of
// deadlock. The leader knows which routes each host has: it compares a digest that hosts
// tell with what it has written. Where old and new ones together could deadlock, and
// where it does not know the old ones, it has hosts use no routes until all have been
// told. What it cannot see is a host that has old routes and that it has no way to, and a
// link that comes back while routes are written: then packets can deadlock until the next
// mapping, and the fabric breaks them. Each host's table is written in parts of about
// 1 KiB, each confirmed; a table with a part missing is not used.
//
// # Whom to trust
//
// Myrinet has no secrets. Messages carry a token, so that only who has seen one of a
// mapper's can answer for it, and what does not fit is dropped and counted. But a host
// that answers with another's identity is on the map if it is found first, and gets what
// is for the other one; it is counted (Stats.Twice) and logged. A host that claims a low
// identity and maps is followed: it can give wrong routes to all, which get lost, and
// nothing else; nothing is remembered of it beyond one table and two identities. A host
// that tells of a leader that is none delays mapping by some periods.
//
// # In virtual time and live
//
// An Agent has no clock, starts no goroutine, and sends nothing by itself: time and
// packets come in as arguments, and packets go out. Host drives one on a port of a
// simulated fabric, and Network a whole topology of them. On a card, whoever drives the
// card calls Receive, Packet and Poll; RouteTable is the card's table of routes.
package mapper
