package vipl_test

import (
	"bytes"
	"fmt"

	"github.com/bobnet-go/bobnet/vipl"
)

// fence is how many bytes lie before each of fenced buffers and behind the last:
// they are registered, but posted by nobody and open to no peer.
const fence = 4096

// fencePattern fills them.
var fencePattern = bytes.Repeat([]byte{0xD7}, fence)

// fenced is buffers with a fence around each.
type fenced struct {
	*buffers
	all []byte
}

func newFenced(n *vipl.NIC, count, size int) (f fenced, err error) {
	f.all = make([]byte, fence+count*(size+fence))
	f.buffers = &buffers{mem: f.all[fence:], descs: make([]vipl.Descriptor, count), size: size + fence}
	if f.h, err = n.RegisterMem(f.all, nil); err != nil {
		return f, err
	}
	for i := range f.descs {
		f.descs[i].Segs = []vipl.Segment{{Data: f.data(i)[:size:size], Handle: f.h}}
		f.descs[i].Context = i
	}
	for i := range count + 1 {
		copy(f.all[i*f.size:], fencePattern)
	}
	return f, nil
}

// intact returns an error if a fence was written to.
func (f fenced) intact() error {
	for i := range len(f.descs) + 1 {
		for at, b := range f.all[i*f.size:][:fence] {
			if b != fencePattern[at] {
				return fmt.Errorf("byte %d of the %d before posted buffer %d was written to: %#x", at, fence, i, b)
			}
		}
	}
	return nil
}
