// Package em3d simulates electromagnetic waves in three-dimensional objects on an irregular graph:
// in one process (Serial), or divided among ranks over Split-C (Run), as in "Split-C for the New
// Millennium".
//
// The graph has nodes of two fields, the electric and the magnetic. Each node depends on some nodes
// of the other field, with a weight for each. A step subtracts from each electric node the weighted
// sum of the magnetic nodes that it depends on, and then does the same for all magnetic nodes:
//
//	e -= sum of w·h;  h -= sum of w·e
//
// The benchmark uses a random graph that grows with the number of ranks: each rank has 500 nodes of
// each field, and on average 30 % of the nodes that a node depends on belong to other ranks. The
// paper gives these two figures.
//
// # In parallel
//
// A rank keeps copies of the other ranks' nodes that its own nodes depend on. After it has computed
// its nodes of a field, it stores their new values into the copies: one bulk store for each rank
// that needs some (or, with Config.Single, one store for each value). While the stores are in
// flight, it computes the contributions of its own values to its nodes of the other field. Then all
// ranks wait until all stores are complete everywhere, and the rank adds the contributions of the
// copies. The wait is also a barrier, so no copy changes while a rank computes with it.
//
// Two ranks that need values of each other in each half of a step need no such wait: each waits for
// the known number of bytes from the other. The other rank stores these bytes after it has read the
// previous copies, and stores nothing more before it has received this rank's values. So bytes of
// two halves cannot be confused. With more ranks they could be, because bytes of a fast rank may
// arrive before those of a slow one.
//
// The graph defines the order in which a node adds up its contributions: those of its own rank
// first. So the result equals that of a serial run bit for bit.
package em3d
