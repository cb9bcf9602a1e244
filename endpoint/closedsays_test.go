package endpoint_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
)

// TestClosedSaysWhat: ErrClosed says what has been closed or freed.
func TestClosedSaysWhat(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			what string
			free func() error
		}{{"the endpoint has been freed", p.ep.Free}, {"the bundle has been freed", p.b.Free}, {"the node has been closed", n.Close}} {
			if err := c.free(); err != nil {
				return err
			}
			for _, err := range []error{p.ep.Request(bg, 0, hEcho), p.ep.Map(0, p.ep.Name(), 1), p.ep.Publish("word")} {
				if !errors.Is(err, endpoint.ErrClosed) || !strings.Contains(err.Error(), c.what) {
					return fmt.Errorf("%s, and the error is: %w", c.what, err)
				}
			}
		}
		return nil
	})
}
