// Package job says which parallel job a process belongs to and which rank it is,
// finds the other ranks, and tells them why this one ends. The packages that pass
// messages between ranks start by it: mplite.Init is its first user.
//
// There are two ways in. Open is for programs that make their connections later, or
// one for each pair of ranks that talks: it returns a Member, which knows where the
// other ranks are and hears that one has failed. New and Job.Meet are for programs
// whose connections are there from the beginning, and carry what Open would need
// connections of its own for.
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
// A process that uses several packages with ranks opens its membership once and gives each of them its
// Member, whose New is the second way in for packages:
//
//	m, err := job.Open(ctx, nil, job.Program{Name: "Halo", Version: 1})
//	c, err := mplite.Init(ctx, &mplite.Config{Member: m})
//
// They are then one rank of one run of the job, on one NIC, and wait for nobody of whom
// one of them knows that it has failed.
//
// # Configuration
//
// A job is a number of processes, its ranks 0 to Size-1, on one network segment.
// Config names one rank of it. What a program leaves zero there comes from the
// environment (EnvJob, EnvRank, EnvSize, EnvInterface, and vipl.EnvTimeout), which
// whoever starts the ranks sets, as bobnet run and bobnet lab do, or from the variables
// of the launcher that has started the process: FindPlace says which count. A launcher
// with PMI-1 is asked for rank and size; by its key-value space the ranks
// find each other, instead of asking the segment, and know the run from the beginning:
//
//	cfg, err := job.Config{}.FromEnvironment()
//	if err == nil {
//		err = cfg.Check()
//	}
//	if err != nil {
//		return err
//	}
//	nic, own, err := cfg.OpenNIC(ctx)
//	if err != nil {
//		return err
//	}
//	if own {
//		defer nic.Close()
//	}
//	id := job.Identity{Job: cfg.Job, Rank: cfg.Rank, Size: cfg.Size, Program: "Halo", Version: 1}
//	j := job.New(id, links, cfg.Timeout)
//	defer j.Close()
//	err = j.Meet(ctx, nic, cq, cfg.Logger) // all ranks are connected, or err says why not
//
// A host takes 63 ranks on one interface, together with whatever else runs there: a NIC holds
// a block of 1,024 ports, and there are 63 of them (vipl.Config). The one too many fails with an
// error that says so. More ranks need a second interface, or a namespace with one.
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
//
// # Concurrency
//
// Nothing here starts goroutines. A Job has no lock of its own: it uses that of its
// Links, and each method says whether the caller holds it. A Member is for one
// goroutine at a time. Several packages may share its NIC.
package job
