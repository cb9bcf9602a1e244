package vipl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/vipl"
)

// TestLookupCancelled: a question that its caller gives up says so, and does not
// blame the owner of the name.
func TestLookupCancelled(t *testing.T) {
	d := newDuo(t, nil, nil)
	reason := errors.New("somebody pressed a key")
	ctx, cancel := context.WithCancelCause(bg)
	cancel(reason)
	_, err := d.na.Lookup(ctx, "nobody")
	want := `vipl: look up: name not found on the segment: context canceled: the question for "nobody" was given up: somebody pressed a key`
	if !errors.Is(err, context.Canceled) || !errors.Is(err, vipl.ErrNameService) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
