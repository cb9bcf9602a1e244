package myrinet

import (
	"github.com/bobnet-go/bobnet/internal/framing"
)

// disturb flips a bit of the packet with a small probability, on its way into port p. If the CRC-8
// is then wrong, it counts the error at the port. Because errors are rare, the probability applies
// to the whole packet. Only changed packets are examined, so that the cost of the others does not
// depend on their length.
func (f *Fabric) disturb(w *worm, p *Port) {
	if f.opts.BitErrors > 0 {
		bits := 8 * w.size()
		if f.rng.Float64() < float64(bits)*f.opts.BitErrors {
			bit := f.rng.IntN(bits)
			w.data[w.head+bit/8] ^= 1 << (bit % 8)
			w.dirty = true
			f.stats.BitErrors++
		}
	}
	if w.dirty && !w.cut && framing.UpdateCRC8(0, w.data[w.head:]) != 0 {
		p.stats.CRCErrors++
	}
}
