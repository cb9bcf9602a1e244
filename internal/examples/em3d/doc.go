// Package em3d moves electromagnetic waves through objects in three dimensions, on an
// irregular graph: alone (Serial) or divided among ranks over Split-C (Run), as in
// "Split-C for the New Millennium".
//
// The graph has nodes of two fields, the electric and the magnetic. Each node depends on
// some of the other field, with a weight for each. A step moves first all electric nodes
// against the weighted sum of the magnetic ones that they depend on, and then all magnetic
// nodes:
//
//	e -= sum of w·h;  h -= sum of w·e
//
// The benchmark is a made-up graph that grows with the number of ranks: each rank has 500
// nodes of each field, and of what a node depends on 30 % on average belongs to
// other ranks, any of them. The paper gives these two figures.
//
// # In parallel
//
// A rank keeps copies of the other ranks' nodes that its own depend on. After it has moved
// its nodes of a field it stores their new values to where the copies are, one bulk store
// for each rank that needs some (or, with Config.Single, one store for each value). While
// they travel it moves its nodes of the other field by what it has itself; then all ranks
// wait until all stores are complete everywhere, and it moves them by the rest. The wait
// is a barrier too, so no copy changes while somebody computes with it.
//
// Two ranks that need values of each other in each half of a step need no such wait: each
// waits for the bytes that it knows will come. The other rank has stored them when it had
// read the last copies, and stores no more before it has this rank's, so neither can bytes
// of two halves be taken for each other. Among more ranks they can: those of a fast rank
// may come before those of a slow one.
//
// The order in which a node adds up what it depends on is part of the graph: first what
// its own rank has. So the result is that of a serial run, bit for bit.
package em3d
