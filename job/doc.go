// Package job determines which parallel job a process belongs to and which rank it is,
// finds the other ranks, and tells them why this one ends. Programs that use mplite or
// splitc need it only to share one job between several packages.
//
// Open is for programs that make their connections later, or only between some ranks. It
// returns a Member, which has the addresses of the other ranks and reports failed ranks.
// New and Job.Meet are for message-passing packages, such as mplite, that connect all
// ranks at the start.
//
//	m, err := job.Open(ctx, nil, job.Program{Name: "Halo", Version: 1, Params: [2]uint32{port}})
//	if err != nil {
//		return err // says which ranks are missing, or which failed and why
//	}
//	me := m.Identity()
//	for rank := range me.Size {
//		if rank != me.Rank {
//			peers[rank] = ethertype.Addr{MAC: m.Addr(rank).MAC, Port: uint16(m.Params(rank)[0])}
//		}
//	}
//	for work() {
//		if err := m.Err(); err != nil { // a rank has failed
//			m.Fail(err)
//			return err
//		}
//	}
//	return m.Close()
//
// A process that uses several packages with ranks calls Open once and passes the Member to
// each of them:
//
//	m, err := job.Open(ctx, nil, job.Program{Name: "Halo", Version: 1})
//	c, err := mplite.Init(ctx, &mplite.Config{Member: m})
//
// The packages then share one rank and one NIC, and none waits for a rank that another
// knows to have failed.
//
// # Configuration
//
// A job is a number of processes, its ranks 0 to Size-1, on one network segment. Config
// describes one rank. Zero fields come from the environment (EnvJob, EnvRank, EnvSize,
// EnvInterface, and vipl.EnvTimeout), which bobnet run and bobnet lab set, or from the
// variables of another launcher (FindPlace). A launcher with PMI-1 supplies rank, size and
// a key-value space, which the ranks use to find each other instead of broadcasts.
//
// A host has room for 63 ranks on one interface, minus other programs with a NIC there: each
// NIC uses a block of 1,024 ports, and there are 63 blocks (vipl.Config.Ports). One rank more
// fails with an error that names this limit. More ranks need a second interface, or a
// namespace with its own interface.
//
// # Failures
//
// Open and Meet log after three seconds which ranks are missing and why. When their time
// is up, their error names the ranks that were not found, and those that were found and
// wait themselves. A rank that fails, or that detects a dead rank or a rank claimed
// twice, notifies the others: their Err, or the calls of their packages, return a RankError
// or a DuplicateError. A job's identity (name, size, run) keeps out mistakes, not attackers.
//
// # Concurrency
//
// This package starts no goroutines. One goroutine at a time may use a Member. Several
// packages may share its NIC. A Job uses the lock of its Links; each method says whether
// the caller must hold it.
package job

// Notes for maintainers, which go doc does not print.
//
// # Identity
//
// A rank is found on the segment by a name that Identity.Address makes of the job's
// name and the rank. That proves nothing, because anybody may advertise any name.
// Each side of a new connection therefore sends a Hello, and Identity.Check judges
// the other side's. It tells apart the jobs (by a hash of the name), the formats of
// the program's messages, the sizes of the job and the runs of one job: rank 0
// draws a nonce and tells it to each rank in its first Hello, and no rank
// talks with a rank that has another nonce. This keeps out mistakes, not attackers:
// whoever hears the segment learns the nonce.
//
// # Coming together
//
// A Job is the membership of one rank. Job.Meet finds the others, who may start in any
// order, proves that they are of this run, and returns when all are connected. The
// connections are the program's, which Links describes: their VIs have the buffers,
// reliability and depth that the program needs, and remain after Meet what carries its
// messages. Meet decides when each is made and with whom. It asks every lower rank
// and takes the requests of every higher one; strangers are refused in words and
// counted (Job.Refused). A requester has proven its address (vipl.Listener), and one that then stops
// answering holds the place of its rank for a quarter of a second.
//
// Meet says after three seconds for whom it waits and why. When its time is up, its
// error tells ranks that are not on the segment from those that are and wait
// themselves.
//
// # Ends
//
// A rank that fails, or that finds another one dead or a rank claimed twice, tells
// the others by a Report, which is a line of text: in a message over a connection,
// or in the refusal of one. Identity.ReportOf makes one of an error, and Job.Hear takes
// one: it fails the rank that is named, with a RankError, or ends the job with a
// DuplicateError. A rank passes on what it was told in the words of the rank that saw
// it.
