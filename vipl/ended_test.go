package vipl_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestEnded: the channel is closed, and the cause is told, when the NIC is closed, and when
// somebody closes the link under it, though nobody calls the NIC.
func TestEnded(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(n *vipl.NIC) error
		want []error
	}{
		{"NIC closed", (*vipl.NIC).Close, []error{vipl.ErrClosed}},
		{"link closed", func(n *vipl.NIC) error { return seam.Link(n).Close() }, []error{vipl.ErrLink, transport.ErrClosed}},
	} {
		n, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		select {
		case <-n.Ended():
			t.Errorf("%s: it has ended before", tc.name)
		default:
		}
		if err := n.Cause(); err != nil {
			t.Errorf("%s: before: %v", tc.name, err)
		}
		if err := tc.end(n); err != nil {
			t.Fatal(err)
		}
		select {
		case <-n.Ended():
		case <-time.After(time.Minute):
			t.Fatalf("%s: it does not end", tc.name)
		}
		for _, want := range tc.want {
			if err := n.Cause(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", tc.name, err, want)
			}
		}
	}
}
