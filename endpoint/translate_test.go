package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestTranslations: the table grows and shrinks, and messages go by all of it.
func TestTranslations(t *testing.T) {
	oneNode(t, endpoint.Config{Credits: endpoint.Credits{Short: 1}, MaxMedium: 8}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		if k := c.ep.NumTranslations(); k != endpoint.DefaultTranslations {
			return fmt.Errorf("%d translations at first", k)
		}
		seen := map[uint32]int{}
		c.ep.SetHandler(hMute, func(_ endpoint.Token, args []uint32, _ []byte) { seen[args[0]]++ })
		for want := range endpoint.DefaultTranslations {
			if i, err := c.ep.MapAny(c.ep.Name(), 5); err != nil || i != want {
				return fmt.Errorf("mapped index %d, want %d: %w", i, want, err)
			}
		}
		if i, err := c.ep.MapAny(c.ep.Name(), 5); !errors.Is(err, endpoint.ErrResource) {
			return fmt.Errorf("a full table: %d, %w", i, err)
		}
		if err := c.ep.SetNumTranslations(600); err != nil {
			return err
		}
		if i, err := c.ep.MapAny(c.ep.Name(), 5); err != nil || i != endpoint.DefaultTranslations {
			return fmt.Errorf("after it has grown: %d, %w", i, err)
		}
		if err := c.ep.Map(599, c.ep.Name(), 6); err != nil {
			return err
		}
		if err := c.ep.SetNumTranslations(700); err != nil {
			return err
		}
		for i := range uint32(endpoint.DefaultTranslations + 1) {
			if err := c.ep.Request(bg, int(i), hMute, i); err != nil {
				return err
			}
		}
		if err := c.ep.Request(bg, 599, hMute, 599); err != nil {
			return err
		}
		if err := c.until(n, "all", func() bool { return len(seen) == endpoint.DefaultTranslations+2 }); err != nil {
			return err
		}
		if name, tag, err := c.ep.Translation(599); err != nil || name != c.ep.Name() || tag != 6 {
			return fmt.Errorf("index 599: %v, %d, %w", name, tag, err)
		}
		return c.shrink()
	})
}

func (c *party) shrink() error {
	if err := c.ep.SetNumTranslations(599); !errors.Is(err, endpoint.ErrInUse) {
		return fmt.Errorf("cut off the last: %w", err)
	}
	if err := c.ep.SetNumTranslations(endpoint.MaxTranslations + 1); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("too many: %w", err)
	}
	for _, i := range []int{599, endpoint.DefaultTranslations} {
		if err := c.ep.Unmap(i); err != nil {
			return err
		}
	}
	if err := c.ep.SetNumTranslations(1); err != nil || c.ep.NumTranslations() != endpoint.DefaultTranslations {
		return fmt.Errorf("never below the default: %d, %w", c.ep.NumTranslations(), err)
	}
	if _, _, err := c.ep.Translation(599); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("an index that is no more: %w", err)
	}
	if err := c.ep.Unmap(-1); !errors.Is(err, endpoint.ErrArgument) {
		return fmt.Errorf("index -1: %w", err)
	}
	return nil
}

// TestReturnedAfterUnmap: what comes back through an index that has been unmapped
// does not name it, because it may stand for another endpoint by then.
func TestReturnedAfterUnmap(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(*party) {}, func(n *endpoint.Node, c *party) error {
		if err := c.ep.Request(bg, 0, 99, 5); err != nil {
			return err
		}
		to, _, _ := c.ep.Translation(0)
		if err := c.ep.Unmap(0); err != nil {
			return err
		}
		if err := c.ep.Map(0, c.ep.Name(), 5); err != nil {
			return err
		}
		if err := c.until(n, "the return", func() bool { return len(c.returned) == 1 }); err != nil {
			return err
		}
		if r := c.returned[0]; r.Dest != -1 || r.To != to || r.Reason != endpoint.ReasonBadHandler {
			return fmt.Errorf("came back from index %d, %v, for %v", r.Dest, r.To, r.Reason)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
