package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Handlers of the tests.
const (
	hEcho  = 10 // replies by hReply with the same size class and contents
	hReply = 11
	hMute  = 12 // does not reply
	hBig   = 13 // replies with args[0] bytes of bulk data to offset args[1]
)

// TestRequestAndReply: arguments there and back.
func TestRequestAndReply(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply, args...) })
	}, func(n *endpoint.Node, c *party) error {
		for count := range endpoint.MaxShort + 1 {
			want := make([]uint32, count)
			for i := range want {
				want[i] = uint32(count*100 + i)
			}
			var got []uint32
			done := false
			c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { got, done = slices.Clone(args), true })
			if err := c.ep.Request(bg, 0, hEcho, want...); err != nil {
				return err
			}
			if err := c.until(n, "the reply", func() bool { return done }); err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("sent %v, got back %v", want, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// echoSizes answers medium by medium, and bulk by bulk at the same offset.
func echoSizes(s *party, segment []byte) {
	s.ep.SetSegment(segment)
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.ReplyMedium(hReply, data, args...) })
	s.ep.SetHandler(hMute, func(t endpoint.Token, args []uint32, data []byte) {})
	s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, data []byte) {
		t.ReplyBulk(hReply, pattern(make([]byte, args[0]), int(args[2])), uint64(args[1]), args...)
	})
}

// TestSizes: payloads of all kinds and sizes there and back, under loss.
func TestSizes(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		segment := make([]byte, 300_000)
		opts := sim.Options{Seed: seed, Loss: 0.02, Reorder: 0.02, Dup: 0.01}
		return pair(opts, endpoint.Config{}, func(s *party) { echoSizes(s, segment) }, func(n *endpoint.Node, c *party) error {
			mine := make([]byte, 300_000)
			c.ep.SetSegment(mine)
			var got []byte
			done := 0
			c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { got = slices.Clone(data); done++ })
			for i, size := range []int{0, 1, 100, 4096} {
				want := pattern(make([]byte, size), i)
				if err := c.ep.RequestMedium(bg, 0, hEcho, want, 1, 2); err != nil {
					return err
				}
				if err := c.until(n, "medium", func() bool { return done > i }); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("medium of %d bytes is damaged", size)
				}
			}
			for i, size := range []int{0, 1, 4096, 4097, 200_000} {
				if err := bulks(n, c, i, size, segment, mine, &done, &got); err != nil {
					return fmt.Errorf("bulk of %d bytes: %w", size, err)
				}
			}
			if len(c.returned) > 0 {
				return fmt.Errorf("came back: %+v", c.returned[0])
			}
			return nil
		})
	})
}

// bulks sends a bulk request, asks for a bulk reply, and gets.
func bulks(n *endpoint.Node, c *party, i, size int, segment, mine []byte, done *int, got *[]byte) error {
	*done = 0
	want := pattern(make([]byte, size), i)
	if err := c.ep.RequestBulk(bg, 0, hEcho+uint8(3*min(1, size/4096)), want, 1000, uint32(size), 50, uint32(i)); err != nil {
		return err
	}
	if err := c.until(n, "the reply to bulk", func() bool { return *done == 1 }); err != nil {
		return err
	}
	if !bytes.Equal(segment[1000:1000+size], want) || !bytes.Equal(*got, want) {
		return errors.New("the data is damaged")
	}
	clear(mine)
	if err := c.ep.Get(bg, 0, hReply, 1000, 77, size); err != nil {
		return err
	}
	if err := c.until(n, "get", func() bool { return *done == 2 }); err != nil {
		return err
	}
	if !bytes.Equal(mine[77:77+size], want) || !bytes.Equal(*got, want) {
		return errors.New("what was fetched is damaged")
	}
	return nil
}

// TestAsyncBulk: it refuses rather than blocks, and a credit comes back when a
// request ends without a reply.
func TestAsyncBulk(t *testing.T) {
	segment := make([]byte, 100_000)
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) { echoSizes(s, segment) }, func(n *endpoint.Node, c *party) error {
		data := pattern(make([]byte, 20_000), 5)
		sent := 0
		for range 1000 {
			err := c.ep.RequestBulkAsync(0, hMute, data, uint64(sent*100))
			if errors.Is(err, endpoint.ErrInUse) {
				break
			}
			if err != nil {
				return err
			}
			sent++
		}
		if sent != 4 {
			return fmt.Errorf("%d requests before a refusal, want as many as credits: 4", sent)
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i := 0; i < 100 && !bytes.Equal(segment[300:20_300], data); i++ {
			if err := c.ep.RequestMedium(bg, 0, hEcho, nil); err != nil { // needs a credit
				return err
			}
			if err := c.until(n, "the reply", func() bool { return replies > i }); err != nil {
				return err
			}
		}
		if !bytes.Equal(segment[300:20_300], data) {
			return errors.New("the data has not come")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCall: typed calls, their errors, and a handler that does not answer.
func TestCall(t *testing.T) {
	type pair2 struct{ A, B int32 }
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		endpoint.Serve(s.ep, 1, func(_ endpoint.Token, r pair2) (int64, error) {
			if r.B == 0 {
				return 0, errors.New("division by zero")
			}
			return int64(r.A / r.B), nil
		})
		endpoint.Serve(s.ep, 2, func(_ endpoint.Token, r string) (string, error) { return "<" + r + ">", nil })
		s.ep.SetHandler(3, func(endpoint.Token, []uint32, []byte) {})
		s.ep.SetHandler(4, func(endpoint.Token, []uint32, []byte) { panic("a handler that panics") })
	}, func(n *endpoint.Node, c *party) error {
		if q, err := endpoint.Call[pair2, int64](bg, c.ep, 0, 1, pair2{42, 6}); err != nil || q != 7 {
			return fmt.Errorf("42/6 = %d, %w", q, err)
		}
		var remote *endpoint.RemoteError
		if _, err := endpoint.Call[pair2, int64](bg, c.ep, 0, 1, pair2{42, 0}); !errors.As(err, &remote) || remote.Text != "division by zero" {
			return fmt.Errorf("42/0: %w", err)
		}
		if q, err := endpoint.Call[string, string](bg, c.ep, 0, 2, "x"); err != nil || q != "<x>" {
			return fmt.Errorf("string: %q, %w", q, err)
		}
		for i := uint8(3); i <= 4; i++ {
			if _, err := endpoint.Call[string, string](bg, c.ep, 0, i, "x"); !errors.Is(err, endpoint.ErrNoReply) {
				return fmt.Errorf("handler %d without a reply: %w", i, err)
			}
		}
		var back *endpoint.CallError
		if _, err := endpoint.Call[string, string](bg, c.ep, 0, 99, "x"); !errors.As(err, &back) || back.Reason != endpoint.ReasonBadHandler {
			return fmt.Errorf("no handler: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
