package refusal

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestPassing: an attempt to connect that the other rank refuses for now, or gives up, is no proof that it has
// died; that it is silent, or says why it refuses, is another matter.
func TestPassing(t *testing.T) {
	refused := func(err error, detail string) error { return &vipl.ConnError{Err: err, Detail: detail} }
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{refused(vipl.ErrReject, busy), true},
		{refused(vipl.ErrNoMatch, ""), true},
		{refused(vipl.ErrDisconnected, ""), true},
		{refused(vipl.ErrReject, "rank 2 takes rank 1 for dead"), false},
		{refused(vipl.ErrTimeout, ""), false},
		{vipl.ErrLink, false},
	} {
		if got := Passing(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}
