// Package pmi implements version 1 of the process management interface (PMI-1). Through this
// interface, a launcher gives a process its rank and the number of ranks, and the ranks of a job
// exchange addresses before they can connect with each other. Its servers are MPICH's hydra, Flux,
// Slurm with --mpi=pmi2, and bobnet run.
//
//	c, err := pmi.Open(ctx, os.Getenv)
//	if err != nil {
//		return err // pmi.ErrNone if no PMI-1 launcher has started the process
//	}
//	err = c.Put(ctx, fmt.Sprintf("addr-%d", c.Rank()), "0a1b2c")
//	err = c.Barrier(ctx)
//	value, err := c.Get(ctx, "addr-0")
//	err = c.Finalize(ctx)
//
// # Wire
//
// A message is a line of text of at most MaxLine bytes. It consists of words with a key and a
// value: cmd=put kvsname=K key=X value=V. The process sends requests, and the launcher answers them
// in order. A key can be put once, and other ranks can read it after the next barrier. Values
// should contain only digits and letters, because launchers escape other characters differently.
//
// Client implements the process's side. Server implements the launcher's side for the ranks of one
// node. Parse accepts arbitrary bytes safely.
//
// Source: pmi-1.1.txt and pmi-1.2.txt of MPICH, and Flux RFC 13.
package pmi
