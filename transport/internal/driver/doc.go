// Package driver holds what links share whatever carries their frames: the gate
// that Close shuts, prefetching, counters and the clock, the blocks in which
// ports are claimed and who holds them, the look at an interface, what the error of a send means. What
// only links on packet sockets have in common is in package afpacket.
package driver
