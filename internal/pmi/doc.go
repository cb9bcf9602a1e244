// Package pmi speaks version 1 of the process management interface, PMI-1, by which
// launchers tell a process which rank of how many it is, and by which the ranks of a job
// exchange addresses before they can talk themselves. MPICH's hydra, Flux, and Slurm with
// --mpi=pmi2 serve it; so does bobnet run.
//
//	c, err := pmi.Open(ctx, os.Getenv)
//	if err != nil {
//		return err // pmi.ErrNone where no launcher of this kind has started the process
//	}
//	err = c.Put(ctx, fmt.Sprintf("addr-%d", c.Rank()), "0a1b2c")
//	err = c.Barrier(ctx)
//	value, err := c.Get(ctx, "addr-0")
//	err = c.Finalize(ctx)
//
// # Wire
//
// A message is a line of text of at most MaxLine bytes, of words with a key and a value:
// cmd=put kvsname=K key=X value=V. A process asks, the launcher answers each request in
// turn. A key is put once, and read by others after the next barrier. Values are best of
// digits and letters alone: launchers differ in how they escape others.
//
// Client is the side of a process, Server that of a launcher for the ranks of one node.
// Parse takes any bytes without harm.
//
// Source: pmi-1.1.txt and pmi-1.2.txt of MPICH, and Flux RFC 13.
package pmi
