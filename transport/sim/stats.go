package sim

import (
	"fmt"
	"hash/crc32"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// Stats are a world's counters. Every copy of a frame has been delivered, is in flight, or is in
// exactly one of the drop counters:
//
//	Copies + Duplicated = Delivered + drops + in flight
type Stats struct {
	Sent       uint64 // frames that stations have sent
	Copies     uint64 // copies made by the switch, one per receiver, and per segment if it cuts them
	Duplicated uint64 // copies of copies
	Delivered  uint64 // copies that reached a station's receive queue

	Lost        uint64 // dropped: Loss and Burst
	Scripted    uint64 // dropped by the script
	Partitioned uint64 // dropped: sender and receiver are on different segments
	TooLong     uint64 // dropped: longer than the receiver's MTU
	Blocked     uint64 // dropped: long frames whose path blocks them
	QueueFull   uint64 // dropped: no room before the receiver's line
	RxFull      uint64 // dropped: no room in the receive queue
	Filtered    uint64 // dropped by the receiver: address, EtherType or port
	Gone        uint64 // dropped: the receiver left while the copy was in flight

	Unrouted uint64 // frames without a copy: no station has the address, or the sender was killed

	Reordered uint64 // copies that were delayed to be overtaken
	Corrupted uint64 // copies with flipped bits

	Events uint64 // events of the simulation
	Turns  uint64 // times that processes ran
}

// Stats returns a snapshot of the counters.
func (w *World) Stats() Stats { return w.stats }

// Digest returns a hash of all deliveries so far: time, sender, receiver and contents. Two runs of
// one program with the same seed have the same digest.
func (w *World) Digest() uint64 { return w.digest }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mix adds a delivery to the digest, by the steps of FNV-1a on whole words.
func (w *World) mix(p passage) {
	const prime = 1099511628211
	d := w.digest
	d = (d ^ uint64(w.now)) * prime
	d = (d ^ uint64(p.from.id)<<32 ^ uint64(p.to.id)) * prime
	d = (d ^ uint64(crc32.Checksum(p.frame.data, castagnoli))) * prime
	w.digest = d ^ d>>29
}

// log writes a line about the outcome of a passage.
func (w *World) log(p passage, fate string) {
	if w.opts.Log == nil {
		return
	}
	to := "nobody"
	if p.to != nil {
		to = p.to.name
	}
	fmt.Fprintf(w.opts.Log, "%12s %s > %s %s: %s\n", elapsed(w.now), p.from.name, to, fate, framing.Dump(p.frame.data))
}
