package endpoint

import (
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestReasonOf: a peer that says the connection is none is another thing than
// one that says nothing; and a refusal has the reason that it names.
func TestReasonOf(t *testing.T) {
	for _, c := range []struct {
		err    error
		detail string
		want   Reason
	}{
		{vipl.ErrPeerReset, "", ReasonBadEndpoint},
		{vipl.ErrNoMatch, "", ReasonBadEndpoint},
		{vipl.ErrDisconnected, "", ReasonBadEndpoint},
		{vipl.ErrTimeout, "", ReasonUnreachable},
		{vipl.ErrUnreachable, "", ReasonUnreachable},
		{vipl.ErrReject, ReasonCongestion.String(), ReasonCongestion},
		{vipl.ErrReject, "words of another version", ReasonUnreachable},
		{vipl.ErrTimeout, ReasonCongestion.String(), ReasonUnreachable},
	} {
		if got := reasonOf(&vipl.ConnError{Err: c.err, Detail: c.detail}); got != c.want {
			t.Errorf("%v (%q): %v, want %v", c.err, c.detail, got, c.want)
		}
	}
	if got := reasonOf(nil); got != ReasonUnreachable {
		t.Errorf("nothing known: %v", got)
	}
}
