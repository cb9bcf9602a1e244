package lanai_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// stages is programs of other processes that post messages of all kinds at a card, and are killed at any stage:
// while their endpoints wait for a frame, come to one, are there, or leave it, with something under way or not.
type stages struct {
	*segment
	rng    *rand.Rand
	card   *lanai.Card
	target endpoint.Name
	living []*lanai.Tenant
	killed []*lanai.Tenant
}

const (
	stagesPrograms = 12 // at a time: more than frames
	stagesKills    = 30
)

// post has a program post an entry: for an endpoint at the other card, one that is not there, another program, or a
// station that does not answer.
func (s *stages) post(t *lanai.Tenant) {
	x := lanai.Entry{Op: lanai.OpMessage, To: s.target.Addr.MAC, Port: s.target.Addr.Port, Endpoint: s.target.ID, Length: 4 + s.rng.IntN(60)}
	x.Message = make([]byte, 4)
	if s.rng.IntN(3) == 0 {
		x.Flags, x.Length = lanai.FlagStaged, 65+s.rng.IntN(4000)
	}
	switch s.rng.IntN(6) {
	case 0:
		x.Endpoint = 9999
	case 1:
		x.To = mac(2)
		x.Port, x.Endpoint = s.living[s.rng.IntN(len(s.living))].Name()
	case 2:
		x.To = mac(9)
	}
	t.Post(s.rng.IntN(16), &x)
}

// run has programs come, post and be killed.
func (s *stages) run() error {
	for len(s.killed) < stagesKills {
		for len(s.living) < stagesPrograms {
			t, err := lanai.NewTenant(s.card, uint32(s.rng.IntN(3)))
			if err != nil {
				return err
			}
			s.living = append(s.living, t)
		}
		for range s.rng.IntN(40) {
			t := s.living[s.rng.IntN(len(s.living))]
			if s.rng.IntN(4) == 0 {
				t.Take()
			} else {
				s.post(t)
			}
			if s.rng.IntN(4) == 0 {
				if err := s.w.Sleep(time.Duration(s.rng.Int64N(int64(200 * time.Microsecond)))); err != nil {
					return err
				}
			}
		}
		if s.rng.IntN(4) == 0 {
			if err := s.w.Sleep(time.Duration(s.rng.Int64N(int64(20 * time.Millisecond)))); err != nil {
				return err
			}
		}
		i := s.rng.IntN(len(s.living))
		s.living[i].Kill()
		s.killed = append(s.killed, s.living[i])
		s.living = append(s.living[:i], s.living[i+1:]...)
	}
	for _, t := range s.living {
		t.Kill()
	}
	s.killed = append(s.killed, s.living...)
	return nil
}

// left returns an error if a program that was killed has something of the card, or the card has written to its
// memory since. One that lives has an endpoint.
func (s *stages) left() error {
	for n, t := range s.killed {
		switch ended, alone := t.Ended(); {
		case !ended:
			return fmt.Errorf("program %d has its endpoint", n)
		case !alone:
			return fmt.Errorf("the card has written to the memory of program %d after it had let it go", n)
		}
	}
	if x := s.card.Snapshot(); x.Endpoints != 1 || x.Resident > 1 || x.Waiting != 0 || x.Pinned > lanai.StagingSize || x.Programs != 1 {
		return fmt.Errorf("%d endpoints in frames, %d wait, %d bytes pinned, %d programs", x.Resident, x.Waiting, x.Pinned, x.Programs)
	}
	return nil
}

// TestKilledStages: a program that is killed at any stage leaves nothing on a card that it shares, the card does not
// touch its memory any more, and others go on.
func TestKilledStages(t *testing.T) {
	seeds.Each(t, 20, func(seed uint64) error {
		s := &stages{segment: newSegment(t, myrinet.Options{Seed: seed}), rng: rand.New(rand.NewPCG(seed, 41))}
		cfg := lanai.Config{Channels: channels.Config{Timeout: 500_000, Tries: 20}}
		if seed%2 == 0 {
			cfg.Card.Timing = myrinet.SBusTiming()
		}
		a, b := s.pair(cfg)
		s.card = b
		var failed error
		converse(t, s.w, [2]*lanai.Card{a, b}, func(p *party) error {
			s.target = p.targets[0]
			killing := make(chan error, 1)
			done := false
			s.w.Go("programs", func() {
				killing <- s.run()
				done = true
			})
			for rounds := 0; !done || rounds < 3; rounds++ {
				if err := p.talk(1); err != nil {
					failed = fmt.Errorf("another program: %w", err)
					return nil
				}
			}
			failed = <-killing
			for end := s.w.Now() + int64(10*time.Second); failed == nil; {
				if failed = s.left(); failed == nil || s.w.Now() > end {
					break
				}
				failed = s.w.Sleep(time.Millisecond)
			}
			return nil
		})
		return failed
	})
}
