// Package job determines which parallel job a process belongs to and which rank it is. It finds the
// other ranks, and reports to them why this rank ends. Programs that use mplite or splitc need it
// for their configuration, and to share one job between several packages.
//
// Open joins the job. It returns a Member, which has the addresses of the other ranks and reports
// failed ranks. A program with connections of its own uses it as follows:
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
// vipl.EnvInterface, and vipl.EnvTimeout), which bobnet run and bobnet lab set, or from the
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
// Open logs after three seconds which ranks are missing and why. When its time is up, its error
// names the ranks that were not found, and those that were found and wait themselves. So do
// mplite.Init and splitc.Open. A rank that fails, or that detects a dead rank or a rank claimed
// twice, notifies the others: their Err, or the calls of their packages, return a RankError
// or a DuplicateError. A job's identity (name, size, run) keeps out mistakes, not attackers.
//
// # Concurrency
//
// This package starts no goroutines. One goroutine at a time may use a Member. Several
// packages may share its NIC.
package job

// Notes for maintainers, which go doc does not print.
//
// # Identity
//
// Identity.address makes a name of the job's name and the rank, under which the rank is found on the
// segment. The name proves nothing, because any program may advertise it. So each side of a new
// connection sends a hello, and Identity.check validates the other side's. It distinguishes jobs (by
// a hash of the name), the formats of the program's messages, the sizes of the job and the runs of
// one job. Rank 0 chooses a random nonce and sends it to each rank in its first hello, and no rank
// accepts a rank with another nonce. This keeps out mistakes, not attackers: a station that observes
// the segment learns the nonce.
//
// # Joining
//
// A membership is a joining.Job: the part of one program of one rank. Its Meet finds the other ranks,
// which may start in any order,
// verifies that they belong to this run, and returns when all are connected. The program owns the
// connections, and describes them by joining.Links: their VIs have the buffers, reliability and depth that
// the program needs, and carry its messages after Meet. Meet decides when each connection is made,
// and with which rank. It sends a request to every lower rank and accepts the requests of every
// higher one; in the tree of a Member (tree.go) it connects with its neighbours only. It refuses
// strangers with a reason, and counts them (Refused). A requester has
// proven its address (vipl.Listener). One that stops answering blocks its rank for a quarter of a
// second.
//
// After three seconds Meet logs the ranks that it waits for, and why. When its timeout expires, its
// error distinguishes ranks that are not on the segment from ranks that are, and wait themselves.
//
// # Failures
//
// A rank that fails, or that detects a dead rank or a rank that exists twice, notifies the others
// with a joining.Report, a line of text. It sends the Report in a message over a connection, or in the
// refusal of a connection. ReportOf makes a Report from an error. Hear processes a
// received Report: it fails the reported rank with a RankError, or ends the job with a
// DuplicateError. A rank forwards the text of the rank that detected the failure.
