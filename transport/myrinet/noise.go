package myrinet

import (
	"github.com/bobnet-go/bobnet/internal/framing"
)

// disturb flips a bit of the packet, now and then, on its way into port p, and counts at
// the port when the CRC-8 tells. It is a chance for the whole packet, because errors are
// rare; only packets that were changed are looked at, so that the others cost the same
// whatever their length.
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
