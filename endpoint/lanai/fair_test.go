package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// flooders is a node with so many endpoints, all of which flood one each of another node.
// It returns how many answers each has got after some time.
func flooders(t *testing.T, cfg lanai.Config, n int, last time.Duration, mark func(c *lanai.Card, i int, ep *endpoint.Endpoint)) (answered []int, cards [2]*lanai.Card) {
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
			if eps = append(eps, ep); mark != nil {
				mark(cards[1], i, ep)
			}
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
		attempts int // of a turn
		total    int // answers at the least
	}{
		"resident":      {7, 20 * time.Millisecond, 32, lanai.DefaultAttempts, 7},
		"short turns":   {7, 20 * time.Millisecond, 32, 2, 7},
		"overcommitted": {84, 6 * time.Second, 32, lanai.DefaultAttempts, 84_000},
		"few channels":  {84, 6 * time.Second, 4, lanai.DefaultAttempts, 8_400},
	} {
		t.Run(name, func(t *testing.T) {
			if x.n > 21 {
				need.Long(t, "it simulates 84 endpoints for seconds")
			}
			quick := channels.Config{Timeout: 1_000_000, Channels: x.channels}
			answered, cards := flooders(t, lanai.Config{Attempts: x.attempts, Channels: quick, Card: myrinet.CardConfig{Timing: myrinet.SBusTiming(), SRAM: 1 << 20}, Costs: lanai.Costs{Send: 100, Loiter: 5}}, x.n, x.last, nil)
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
			for _, c := range cards {
				takesTurns(t, c, x.attempts)
			}
			if st := cards[1].Snapshot().Stats; x.attempts == lanai.DefaultAttempts && st.Loitered == 0 || x.attempts < 4 && st.Passed == 0 {
				t.Errorf("no turn of %d attempts had some in vain, or none ever waited for another: %+v", x.attempts, st)
			}
		})
	}
}

// takesTurns wants a card's frames to have had turns of so many attempts at the most, in vain or
// not, and each to have waited for one turn of each other frame at the most: so one with something
// to send does so before the others have made that many attempts each.
func takesTurns(t *testing.T, c *lanai.Card, most int) {
	t.Helper()
	x := c.Snapshot()
	st := &x.Stats
	if attempts := x.Sends.Sent + st.Loitered; attempts > st.Turns*uint64(most) {
		t.Errorf("%d messages were sent and %d attempts made in vain in %d turns: want at most %d attempts a turn", x.Sends.Sent, st.Loitered, st.Turns, most)
	}
	if others := uint64(lanai.DefaultFrames - 1); st.Passed > others {
		t.Errorf("a frame with something to send waited for %d turns of others: want %d at the most", st.Passed, others)
	}
}

// TestLoiters: an endpoint whose turn it is may send what is written while it has attempts left,
// which takes others longer turns to wait for, if an attempt in vain takes time, and else none.
func TestLoiters(t *testing.T) {
	perTurn := func(cost int) float64 {
		answered, cards := flooders(t, lanai.Config{Channels: channels.Config{Timeout: 1_000_000}, Card: myrinet.CardConfig{Timing: myrinet.SBusTiming()}, Costs: lanai.Costs{Send: 100, Loiter: cost}}, 3, 20*time.Millisecond, nil)
		if slices.Min(answered) == 0 {
			t.Errorf("with attempts of %d cycles: answers %v", cost, answered)
		}
		for _, c := range cards {
			takesTurns(t, c, lanai.DefaultAttempts)
		}
		x := cards[1].Snapshot()
		return float64(x.Sends.Sent) / float64(x.Stats.Turns)
	}
	if without, with := perTurn(0), perTurn(100); with < 1.05*without {
		t.Errorf("%.1f messages are sent in a turn if attempts in vain take time, and %.1f if not: want more", with, without)
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
