// Package myrinet is a Myrinet in software: crossbar switches, full-duplex cables, and the
// options of the cards that are plugged in. It moves packets, unreliably, and knows nothing of
// endpoints.
//
// Programs use a card through endpoint/lanai or vmmc/lanai, or as vipl's driver "myrinet".
// The commands bobnet card, switch and map run and inspect a live fabric. This package is for
// programs that build a fabric in virtual time: New makes the Fabric, Fabric.Switch its
// switches, Fabric.Join its cables, and lanai.NewVirtual puts a card at each port that
// Fabric.Host returns. Cables can be cut, and switches fail.
//
// Times are nanoseconds of the World. Lengths are bytes. The package starts no goroutines. A
// Fabric and its parts belong to the goroutine that drives its World. Equal seeds give equal
// runs.
//
// The papers are Chun, Mainwaring, Culler, "Virtual Network Transport Protocols for Myrinet"
// (1997), here VNT, and Dubnicki et al., "Design and Implementation of Virtual
// Memory-Mapped Communication on Myrinet" (1997), here VMMC.
//
// # Packets
//
// A packet is a source route, a type, a payload and a CRC-8. Each byte of
// the route is a turn: a switch removes it, and forwards the packet to the port at that
// distance from the port of arrival; 0 leads back. A switch therefore needs no address and no
// table, and a probe learns only the distances between its ports. The switch
// updates the CRC-8 so that an error stays an error; the receiving card checks it.
//
// # The fabric (VNT, 3.4)
//
// A switch is a crossbar of 8 ports; a link carries 160 MB/s in each direction. Packets cut
// through: the head continues as soon as its output is free, while the tail still arrives. An
// output serves waiting packets round-robin. Links have backpressure: a blocked packet
// stops and blocks those behind it, and normal operation loses nothing. A packet that is
// blocked for longer than a timeout is broken: the switch frees its links, drops what follows
// the buffer that holds its head, and delivers the rest truncated. Links and switches can fail
// and return, and bits can flip. Losses are counted by cause, at the port (PortStats).
//
// Without contention, a packet of z bytes after its route passes n switches in
//
//	(n+1)*Cable + n*CutThrough + z/Bandwidth
//
// from the departure of its head to the arrival of its tail. z counts 2 bytes of type, the
// payload, and the CRC-8.
package myrinet
