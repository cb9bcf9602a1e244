// Package station has what is the same in all hosts of cards, whatever control program a
// card runs: opening the end of a cable, driving a live card, waiting in virtual time, the
// host's mapper on the card, and the table of routes (Table). The programs and their drivers are those of package plain,
// and of the providers of active messages and of VMMC.
//
// Live has the card at the end of a live cable. It has no goroutine and no lock: whoever
// holds the lock of the host drives both, by Live.Drive. The program works whenever
// something has happened, so that what it sends in return leaves with what else the end of
// the cable has to send.
//
// In virtual time events of the world drive the card (NewCard). Processes that use it wait
// at a Clock, which is a transport.Link that carries no frames.
package station
