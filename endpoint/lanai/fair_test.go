package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// flooders is a node with so many endpoints, all of which flood one each of another node.
// It returns how many answers each has got after some time.
func flooders(t *testing.T, cfg lanai.Config, n int, last time.Duration) (answered []int, cards [2]*lanai.Card) {
	t.Helper()
	s := newSegment(t, myrinet.Options{})
	cards[0], cards[1] = s.pair(cfg)
	answered = make([]int, n)
	converseWith(t, s.w, cards, n, func(p *party) error {
		var eps []*endpoint.Endpoint
		for i := range n {
			ep, err := p.newEndpoint()
			if err != nil {
				return err
			}
			ep.SetHandler(hBack, func(endpoint.Token, []uint32, []byte) { answered[i]++ })
			if err := ep.Map(0, p.targets[i], tag); err != nil {
				return err
			}
			eps = append(eps, ep)
		}
		for end := s.w.Now() + int64(last); s.w.Now() < end; {
			for _, ep := range eps {
				var err error
				for err == nil {
					err = ep.RequestBulkAsync(0, hEcho, nil, 0)
				}
				if !errors.Is(err, endpoint.ErrInUse) {
					return err
				}
			}
			ctx, cancel := p.n.WithTimeout(context.Background(), time.Millisecond)
			_, err := p.b.WaitPoll(ctx)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
		if len(p.returned) > 0 {
			return fmt.Errorf("came back: %v", p.returned)
		}
		return nil
	})
	return answered, cards
}

// TestFair: endpoints that all send have equal shares, whether all are resident or 12 times
// as many as there are frames: none starves.
func TestFair(t *testing.T) {
	for name, x := range map[string]struct {
		n        int
		last     time.Duration
		channels int
		total    int // answers at the least
	}{"resident": {7, 20 * time.Millisecond, 32, 7}, "overcommitted": {84, 6 * time.Second, 32, 84_000}, "few channels": {84, 6 * time.Second, 4, 8_400}} {
		t.Run(name, func(t *testing.T) {
			if x.n > 21 && testing.Short() {
				t.Skip("left out by -short: it computes for some seconds")
			}
			quick := reliability.ChannelConfig{Timeout: 1_000_000, Channels: x.channels}
			answered, cards := flooders(t, lanai.Config{Channels: quick, Card: myrinet.CardConfig{Timing: myrinet.SBusTiming(), SRAM: 1 << 20}, Costs: lanai.Costs{Send: 100, Loiter: 5}}, x.n, x.last)
			least, most, total := answered[0], answered[0], 0
			for _, n := range answered {
				least, most, total = min(least, n), max(most, n), total+n
			}
			t.Logf("%d answers, %d to %d for each", total, least, most)
			if most > 2*least && x.n <= 7 || most > 8*least {
				t.Errorf("of %d endpoints one got %d answers, another %d", x.n, least, most)
			}
			if total < x.total {
				t.Errorf("%d answers in %v, want %d", total, x.last, x.total)
			}
			if st := cards[1].Snapshot().Stats; x.n > 7 && st.Loads < 3*uint64(x.n) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestQueuesTakeTurns: of requests and replies the kind goes first that has not gone last,
// so that no stream of requests holds back the replies that others wait for.
func TestQueuesTakeTurns(t *testing.T) {
	for _, test := range []struct {
		set  uint16
		side int
		next [2]int
		want int
		what string
	}{
		{0x010f, 1, [2]int{1, 0}, 8, "a reply behind a request, though three more wait"},
		{0x010f, 0, [2]int{1, 1}, 1, "the next request behind that reply"},
		{0x000f, 1, [2]int{4, 0}, 0, "requests alone, from the beginning"},
		{0x8100, 0, [2]int{3, 1}, 15, "replies alone, in turn"},
	} {
		if got := lanai.FirstOf(test.set, test.side, test.next); got != test.want {
			t.Errorf("%s: entry %d, want %d", test.what, got, test.want)
		}
	}
}
