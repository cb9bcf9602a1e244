// Package job says which parallel job a process belongs to and which rank it is,
// and what the ranks of a job tell each other of who they are and why they end. The
// packages that pass messages between ranks start by it: mplite.Init is its first
// user.
//
// A job is a number of processes, its ranks 0 to Size-1, on one network segment.
// Config names one rank of it. What a program leaves zero there comes from the
// environment (EnvJob, EnvRank, EnvSize, EnvInterface, and vipl.EnvTimeout), which
// whoever starts the ranks sets; bobnet lab does:
//
//	cfg, err := job.Config{}.FromEnvironment()
//	if err == nil {
//		err = cfg.Check()
//	}
//	if err != nil {
//		return err
//	}
//	nic, own, err := cfg.OpenNIC()
//	if err != nil {
//		return err
//	}
//	if own {
//		defer nic.Close()
//	}
//	id := job.Identity{Name: cfg.Name, Rank: cfg.Rank, Size: cfg.Size, Program: "Halo", Version: 1}
//	err = nic.Advertise(id.Address(id.Rank), listener.Addr())
//
// # Identity
//
// A rank is found on the segment by a name that Identity.Address makes of the job's
// name and the rank. That proves nothing, because anybody may advertise any name.
// Each side of a new connection therefore sends a Hello, and Identity.Check judges
// the other side's. It tells apart the jobs (by a hash of the name), the formats of
// the program's messages, the sizes of the job and the runs of one job: rank 0
// draws a nonce (NewNonce) and tells it to each rank in its first Hello, and no rank
// talks with a rank that has another nonce. This keeps out mistakes, not attackers:
// whoever hears the segment learns the nonce.
//
// # Ends
//
// A rank that fails, or that finds another one dead or a rank claimed twice, tells
// the others by a Report, which is a line of text: in a message over a connection,
// or in the refusal of one. ReportOf makes one of an error, and Report.Err makes an
// error of one, a RankError or a DuplicateError. A rank passes on what it was told
// in the words of the rank that saw it.
//
// # Concurrency
//
// Nothing here has state or starts goroutines, with the exception of SayAlone, which
// prints once in a process. Values may be read by several goroutines at a time.
package job
