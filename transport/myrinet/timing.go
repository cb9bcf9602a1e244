package myrinet

import "time"

// Timing is what the parts of a card, and the host's access to it, cost in virtual time.
// A card without one costs nothing, as a live one, whose time passes by itself. What the
// link costs is the fabric's (Options).
type Timing struct {
	Clock        int64         // of the card's processor, cycles per second
	DMASetup     time.Duration // from the start of a transfer between host and SRAM to its first octet
	DMABandwidth int64         // of the bus, octets per second
	DMAFetch     int64         // the same from the host to SRAM, where reads across the bus are slower; 0 means DMABandwidth
	PIORead      time.Duration // the host reads a word of 32 bits from the card; it waits for it
	PIOWrite     time.Duration // the host writes a word of 32 bits to the card
	Interrupt    time.Duration // from the card's interrupt to the host's handler
}

// PCITiming is the card of VMMC, 5.1 and 5.2: 33 MHz, PCI. 2 us are what it takes there
// to get the bus and begin a transfer. With it, transfers of 4 KB, a page, reach the
// 110 MB/s of figure 1, and those of 64 KB 115 of its 128 MB/s: no setup and bandwidth fit
// both, and pages are what the programs move. The papers give no time for an interrupt;
// 10 us is our figure for one on a processor of 166 MHz.
func PCITiming() *Timing {
	return &Timing{
		Clock: 33_000_000, DMASetup: 2 * time.Microsecond, DMABandwidth: 116_000_000,
		PIORead: 422 * time.Nanosecond, PIOWrite: 121 * time.Nanosecond, Interrupt: 10 * time.Microsecond,
	}
}

// SBusTiming is the card of VNT, 3.4: 37.5 MHz, SBus. The most that VNT, 5.2, sees cross
// that bus is 38 MB/s, of a layer that moves nothing else at the time; transfers of 8 KB
// reach it here. What VNT does not say is as with PCI.
func SBusTiming() *Timing {
	t := PCITiming()
	t.Clock, t.DMABandwidth = 37_500_000, 38_400_000
	return t
}

// cycles returns how long n cycles of the processor take, in nanoseconds.
func (t *Timing) cycles(n int) int64 {
	if t == nil || t.Clock <= 0 {
		return 0
	}
	return (int64(n)*int64(time.Second) + t.Clock - 1) / t.Clock
}

// dma returns how long a transfer of n octets from SRAM to the host takes.
func (t *Timing) dma(n int) int64 {
	if t == nil {
		return 0
	}
	return t.transfer(n, t.DMABandwidth)
}

// fetch returns the same for one from the host to SRAM.
func (t *Timing) fetch(n int) int64 {
	if t == nil || t.DMAFetch == 0 {
		return t.dma(n)
	}
	return t.transfer(n, t.DMAFetch)
}

func (t *Timing) transfer(n int, rate int64) int64 {
	ns := int64(t.DMASetup)
	if rate > 0 {
		ns += (int64(n)*int64(time.Second) + rate - 1) / rate
	}
	return ns
}

// wordSize is the octets of a word of programmed I/O.
const wordSize = 4

// pio returns how long the host takes to move n octets by programmed I/O.
func (t *Timing) pio(n int, write bool) int64 {
	if t == nil {
		return 0
	}
	words := int64((n + wordSize - 1) / wordSize)
	if write {
		return words * int64(t.PIOWrite)
	}
	return words * int64(t.PIORead)
}

func (t *Timing) interrupt() int64 {
	if t == nil {
		return 0
	}
	return int64(t.Interrupt)
}
