package vipl_test

import (
	"testing"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/fault"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestWrappedShm: a wrapper around shared memory hides that it is the way to this
// host, but not that all its stations are.
func TestWrappedShm(t *testing.T) {
	p, err := fault.Parse("loss=0.02,seed=1")
	if err != nil {
		t.Fatal(err)
	}
	var nics [2]*vipl.NIC
	for i := range nics {
		if nics[i], err = vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Wrap: func(l transport.Link) transport.Link { return fault.New(l, p) }}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nics[i].Close() })
	}
	va, vb := join(t, nics, vipl.DefaultAttributes())
	for i, size := range []int{1, 5000, 400_000} {
		relay(t, va, vb, size, byte(i))
		relay(t, vb, va, size, byte(i+1))
	}
}
