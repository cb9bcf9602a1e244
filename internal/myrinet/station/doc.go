// Package station implements the parts that are the same in all hosts of cards, whatever the
// control program: opening the end of a cable, driving a live card, waiting in virtual time, the
// host's mapper on the card, and the table of routes (Table). The programs and their drivers are in
// package plain and in the providers of active messages and of VMMC.
//
// Live is the card at the end of a live cable. It has no goroutine and no lock: the holder of the
// host's lock drives both by Live.Drive. The program runs after every event, so that its replies
// leave together with other queued frames.
//
// In virtual time, events of the world drive the card (NewCard). Processes that use it wait on a
// Clock, which is a transport.Link without frames.
package station
