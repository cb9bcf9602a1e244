package vipl

import (
	"unsafe"

	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/memory"
)

// descriptorOf returns the program's descriptor whose copy in the engine is w. Every descriptor of
// the engine is the field work of a Descriptor.
func descriptorOf(w *conn.Descriptor) *Descriptor {
	return (*Descriptor)(unsafe.Add(unsafe.Pointer(w), -int(unsafe.Offsetof(Descriptor{}.work))))
}

// engineSegments returns segs as the engine's type, without a copy. Both types have the same fields.
func engineSegments(segs []Segment) []memory.Segment {
	return *(*[]memory.Segment)(unsafe.Pointer(&segs))
}

// The compiler checks that the fields are the same: none of these indexes may differ from 0.
var (
	_ = memory.Segment{Data: Segment{}.Data, Handle: memory.Handle(Segment{}.Handle)}
	_ = [1]byte{}[unsafe.Sizeof(Segment{})-unsafe.Sizeof(memory.Segment{})]
	_ = [1]byte{}[unsafe.Sizeof(Segment{}.Handle)-unsafe.Sizeof(memory.Segment{}.Handle)]
	_ = [1]byte{}[unsafe.Offsetof(Segment{}.Data)-unsafe.Offsetof(memory.Segment{}.Data)]
	_ = [1]byte{}[unsafe.Offsetof(Segment{}.Handle)-unsafe.Offsetof(memory.Segment{}.Handle)]
)
