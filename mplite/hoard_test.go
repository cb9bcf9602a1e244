package mplite_test

import (
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// Ranks that keep the credits which others need, or spend some that they do not
// have: what waits for them, and what they send, must not grow without bound.

// answersMax is how many may wait for a rank: as many as there are data credits
// before it gets no more of those, and then one for each that it still has. The
// next message is the end of it.
func answersMax(cfg mplite.Config) int { return 2*cfg.Credits + 1 }

// TestHoardedCredits: a rank returns no control credits and sends on, whether it
// may or not. It is dead before much has gathered.
func TestHoardedCredits(t *testing.T) {
	for name, forge := range map[string]mplite.Word{
		"synchronous": {Kind: mplite.KindEager, Flags: mplite.FlagSync},
		"announced":   {Kind: mplite.KindReady, Size: 5000},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
				until, err := c.Irecv(nil, victim, 1)
				for id := uint32(0); err == nil; id++ {
					if got := mplite.Unsaid(c, victim); got > answersMax(small) || id == 1000 {
						return fmt.Errorf("after %d messages %d answers wait, want %d at most", id, got, answersMax(small))
					}
					if _, err := c.Irecv(nil, victim, 0); err != nil {
						return err
					}
					w := forge
					w.SendID = id
					said := x.says(c, w)
					if _, done, why := until.Test(); done {
						return overspent(why)
					}
					err = said
				}
				return err
			}, idle))
		})
	}
}

// TestUnexpectedOverspent: a rank sends messages that nobody receives, more than
// there is room for.
func TestUnexpectedOverspent(t *testing.T) {
	check(t, besiegedWith(noSpill, greeting, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Irecv(nil, victim, 1)
		if err != nil {
			return err
		}
		for range noSpill.Credits + 1 {
			if err := x.says(c, mplite.Word{Kind: mplite.KindEager}); err != nil {
				return err
			}
		}
		_, err = r.Wait(bg)
		return overspent(err)
	}, idle))
}

// overspent wants an error to say that the victim has sent too much.
func overspent(err error) error {
	if err := blames("receive", err); err != nil {
		return err
	}
	if want := "it sent more messages than it was given credits for"; !contains(err, want) {
		return fmt.Errorf("%w, want %q", err, want)
	}
	return nil
}

// TestManyAnswers: two ranks owe each other many more answers than may wait. All
// get through, though neither gives receive buffers back meanwhile.
func TestManyAnswers(t *testing.T) {
	const messages = 400
	j := newJob(2, sim.Options{}, small)
	j.start(func(c *mplite.Comm) error {
		other := 1 - c.Rank()
		var reqs []mplite.Request
		for i := range messages {
			r, err := c.Irecv(make([]byte, 3000), other, i)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		for i := range messages {
			r, err := c.Issend(content(i%2*3000, uint64(i)), other, i)
			if err != nil {
				return err
			}
			reqs = append(reqs, r)
		}
		most := 0
		err := j.computes(c, func() bool {
			done, err := mplite.Testall(reqs, nil)
			most = max(most, mplite.Unsaid(c, other))
			return done || err != nil
		})
		// Besides, a write for each message that it has announced.
		if limit := answersMax(small) + messages/2; err == nil && most > limit {
			err = fmt.Errorf("%d answers waited, want %d at most", most, limit)
		}
		return err
	})
	check(t, j.run())
}
