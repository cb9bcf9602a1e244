package hardware

import (
	"time"

	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// timing holds the costs of a card. With a nil Timing everything is free.
type timing struct{ *myrinet.Timing }

// cycles returns the duration of n processor cycles, in nanoseconds.
func (t timing) cycles(n int) int64 {
	if t.Timing == nil || t.Clock <= 0 {
		return 0
	}
	return (int64(n)*int64(time.Second) + t.Clock - 1) / t.Clock
}

// dma returns the duration of a transfer of n bytes from SRAM to the host, in nanoseconds.
func (t timing) dma(n int) int64 {
	if t.Timing == nil {
		return 0
	}
	return t.transfer(n, t.DMABandwidth)
}

// fetch returns the duration of a transfer from the host to SRAM, in nanoseconds.
func (t timing) fetch(n int) int64 {
	if t.Timing == nil || t.DMAFetch == 0 {
		return t.dma(n)
	}
	return t.transfer(n, t.DMAFetch)
}

func (t timing) transfer(n int, rate int64) int64 {
	ns := int64(t.DMASetup)
	if rate > 0 {
		ns += (int64(n)*int64(time.Second) + rate - 1) / rate
	}
	return ns
}

// wordSize is the number of bytes in a word of programmed I/O.
const wordSize = 4

// pio returns how long programmed I/O of n bytes takes the host, in nanoseconds.
func (t timing) pio(n int, write bool) int64 {
	if t.Timing == nil {
		return 0
	}
	words := int64((n + wordSize - 1) / wordSize)
	if write {
		return words * int64(t.PIOWrite)
	}
	return words * int64(t.PIORead)
}

func (t timing) interrupt() int64 {
	if t.Timing == nil {
		return 0
	}
	return int64(t.Interrupt)
}
