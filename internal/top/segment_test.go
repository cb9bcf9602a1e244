package top

import (
	"context"
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSegmentDown: a segment without stations is no error, an interface that is down is one, and a note.
func TestSegmentDown(t *testing.T) {
	veth := vethtest.New(t, 1500)
	if err := veth.In(0, func() error {
		s := OpenSegment(context.Background(), vipl.Config{Interface: vethtest.Name})
		defer s.Close()
		for _, up := range []bool{true, false} {
			if err := veth.SetUp(0, up); err != nil {
				return err
			}
			var to Sample
			err := s.Take(context.Background(), &to)
			if errors.Is(err, transport.ErrLinkDown) == up || up && err != nil || (len(to.Notes) == 0) != up {
				t.Errorf("up %v: %v, %q", up, err, to.Notes)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
