package endpoint_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
)

// TestExtraReceiveStory is the story for which there is one receive more than
// credits, between endpoints of one node, where every step happens at once. With
// one credit:
//
//   - The handler of a request replies, and looks at its payload still.
//   - The client handles the reply, which gives its credit back, and sends the
//     next request. That finds a receive, and not the one with the payload.
func TestExtraReceiveStory(t *testing.T) {
	for _, credits := range []endpoint.Credits{{Short: 1}, {Short: 3}, {Short: 1, Medium: 1, Bulk: 1}} {
		oneNode(t, endpoint.Config{Credits: credits}, func(n *endpoint.Node) error {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			s, err := newParty(n)
			if err != nil {
				return err
			}
			const rounds = 20
			sent, handled, replies := 0, 0, 0
			var wrong error
			send := func() {
				if sent == rounds {
					return
				}
				if err := c.ep.RequestMedium(bg, 0, hEcho, pattern(make([]byte, 300), sent), uint32(sent)); err != nil {
					wrong = err
				}
				sent++
			}
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
				handled++
				t.ReplyMedium(hReply, data)
				if _, err := c.b.Poll(); err != nil {
					wrong = err
				}
				send()
				if !bytes.Equal(data, pattern(make([]byte, 300), int(args[0]))) {
					wrong = fmt.Errorf("the payload of request %d was overwritten in its handler", args[0])
				}
			})
			c.ep.Map(0, s.ep.Name(), 5)
			for range max(credits.Medium, credits.Short) { // all credits
				if credits.Medium == 0 || sent < credits.Medium {
					send()
				}
			}
			for handled < rounds {
				if k, err := s.b.Poll(); err != nil || k == 0 {
					return fmt.Errorf("%d of %d handled: %w", handled, rounds, err)
				}
			}
			c.b.Poll()
			if panics := n.Stats().Panics; panics > 0 || replies != rounds || len(c.returned) > 0 {
				return fmt.Errorf("%d panics, %d of %d replies, %d came back", panics, replies, rounds, len(c.returned))
			}
			return wrong
		})
	}
}
