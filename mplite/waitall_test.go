package mplite_test

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
)

// TestWaitallFirstError: of several requests that fail, the first one's error
// is returned, and the others are waited for.
func TestWaitallFirstError(t *testing.T) {
	c, err := mplite.Init(bg, &mplite.Config{})
	check(t, err)
	var reqs []mplite.Request
	for tag, room := range []int{10, 5, 3, 10} { // the second and third are too short
		r, err := c.Irecv(make([]byte, room), 0, tag)
		check(t, err)
		reqs = append(reqs, r)
		check(t, c.Send(bg, make([]byte, 10), 0, tag))
	}
	var short *mplite.TruncateError
	if err := mplite.Waitall(bg, reqs, nil); !errors.As(err, &short) || short.Tag != 1 {
		t.Errorf("got %v, want that the message with tag 1 does not fit", err)
	}
	for i, r := range reqs {
		if !r.Null() {
			t.Errorf("request %d was not waited for", i)
		}
	}
	check(t, c.Finalize(bg))
}
