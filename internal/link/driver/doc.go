// Package driver holds what links share whatever carries their frames: the gate that
// Close shuts, prefetching, counters and the clock, the blocks in which ports are claimed
// and who has claimed them, the state of an interface, and what the error of a send means.
// What only links on packet sockets have in common is in package afpacket.
package driver
