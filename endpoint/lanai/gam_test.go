package lanai_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

func gam(t *myrinet.Timing) lanai.Config {
	return lanai.Config{Card: myrinet.CardConfig{Timing: t}, Unreliable: true, Unprotected: true, Unnamed: true, Pipelined: true, Spin: true}
}

// TestGAMStreams: a program that believes that messages arrive may reuse the memory of one
// when the card has fetched it, and not before: what comes back is what was sent.
func TestGAMStreams(t *testing.T) {
	const messages, size = 40, 4000
	s := newSegment(t, myrinet.Options{})
	a, b := s.pair(gam(myrinet.SBusTiming()))
	converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
		for n := range messages {
			if err := p.ep.RequestMedium(t.Context(), 0, hEcho, bytes.Repeat([]byte{byte(n)}, size), uint32(n)); err != nil {
				return err
			}
		}
		if err := p.until("all answers", func() bool { return len(p.got) == messages }); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, got := range p.got {
			seen[got] = true
		}
		for n := range messages {
			if want := fmt.Sprint([]uint32{uint32(n)}, " ", string(bytes.Repeat([]byte{byte(n)}, size))); !seen[want] {
				return fmt.Errorf("message %d has not come back as it was", n)
			}
		}
		return nil
	})
}

// TestWordsOfNames: without virtual networks a request costs its host less, since it writes
// neither names nor tags: 7 words of 1 us.
func TestWordsOfNames(t *testing.T) {
	timing := &myrinet.Timing{PIOWrite: time.Microsecond}
	cost := func(cfg lanai.Config) (ns uint64) {
		s := newSegment(t, myrinet.Options{})
		a, b := s.pair(cfg)
		converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
			if err := p.talk(1); err != nil {
				return err
			}
			before := b.Snapshot().Card.Stats.HostNanos
			err := p.ep.Request(t.Context(), 0, hEcho, 1, 2, 3, 4)
			ns = b.Snapshot().Card.Stats.HostNanos - before
			return err
		})
		return ns
	}
	named := gam(timing)
	named.Unnamed = false
	with, without := cost(named), cost(gam(timing))
	if with-without != 7000 {
		t.Errorf("a request costs %d ns with names, %d without: want 7000 less", with, without)
	}
}
