package vi

import (
	"testing"

	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestReasonOf: a peer that says the connection is none is another thing than
// one that says nothing; and a refusal has the reason that it names.
func TestReasonOf(t *testing.T) {
	for _, c := range []struct {
		err    error
		detail string
		want   wire.Reason
	}{
		{vipl.ErrPeerReset, "", wire.ReasonBadEndpoint},
		{vipl.ErrNoMatch, "", wire.ReasonBadEndpoint},
		{vipl.ErrDisconnected, "", wire.ReasonBadEndpoint},
		{vipl.ErrTimeout, "", wire.ReasonUnreachable},
		{vipl.ErrUnreachable, "", wire.ReasonUnreachable},
		{vipl.ErrReject, wire.ReasonCongestion.String(), wire.ReasonCongestion},
		{vipl.ErrReject, "words of another version", wire.ReasonUnreachable},
		{vipl.ErrTimeout, wire.ReasonCongestion.String(), wire.ReasonUnreachable},
	} {
		if got := reasonOf(&vipl.ConnError{Err: c.err, Detail: c.detail}); got != c.want {
			t.Errorf("%v (%q): %v, want %v", c.err, c.detail, got, c.want)
		}
	}
	if got := reasonOf(nil); got != wire.ReasonUnreachable {
		t.Errorf("nothing known: %v", got)
	}
}
