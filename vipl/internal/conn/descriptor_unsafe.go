package conn

import "unsafe"

// Segs returns the segments of d.
func (d *Descriptor) Segs() []Segment { return unsafe.Slice(d.segs, d.count) }

// SetSegs sets the segments of d, at most MaxSegments.
func (d *Descriptor) SetSegs(segs []Segment) {
	d.segs, d.count = unsafe.SliceData(segs), uint8(len(segs))
}
