package endpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
)

// TestRequestInReturnHandler: handlers of returned messages may send no requests
// either, on bundles of both types.
func TestRequestInReturnHandler(t *testing.T) {
	for _, kind := range []endpoint.BundleType{endpoint.Sequential, endpoint.Parallel} {
		oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
			b, err := n.NewBundle(kind)
			if err != nil {
				return err
			}
			ep, err := b.NewEndpoint()
			if err != nil {
				return err
			}
			ep.SetTag(endpoint.TagAll)
			var within, polled error
			back := 0
			ep.SetReturnHandler(func(*endpoint.Returned) {
				if back++; back == 1 {
					within = ep.Request(bg, 0, hMute)
					_, polled = b.Poll()
				}
			})
			ep.Map(0, ep.Name(), 1)
			if err := ep.Request(bg, 0, 99); err != nil {
				return err
			}
			if err := (&party{b: b, ep: ep}).until(n, "the return", func() bool { return back > 0 }); err != nil {
				return err
			}
			if !errors.Is(within, endpoint.ErrInHandler) || !errors.Is(polled, endpoint.ErrInHandler) {
				return fmt.Errorf("bundle type %d: a request %w, a poll %w", kind, within, polled)
			}
			return nil
		})
	}
}
