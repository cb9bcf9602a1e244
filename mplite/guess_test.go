package mplite_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestGuessedTarget: a rank that has guessed where another one has been cleared
// to write, address and handle, cannot write there: it ends its own connection,
// and what the other one sends arrives.
func TestGuessedTarget(t *testing.T) {
	const long = 5000
	guessed := false
	check(t, besieged(greeting, func(x *intruder, c *mplite.Comm) error {
		if _, err := c.Probe(bg, 1, 3); err != nil {
			return err
		}
		buf := make([]byte, long)
		cleared, err := c.Irecv(buf, 1, 3)
		if err != nil {
			return err
		}
		to := mplite.ClearedTo(cleared)
		if to.Addr != vipl.VirtualAddress(buf) || to.Handle == 0 {
			return fmt.Errorf("the buffer at %#x is cleared at %+v", vipl.VirtualAddress(buf), to)
		}
		garbage := x.part(len(x.recvs))[:100]
		for i := range garbage {
			garbage[i] = 0xA5
		}
		attack := x.does(c, func() error { return x.write(to, len(garbage), 9) })
		if !bytes.Equal(buf, make([]byte, long)) {
			return errors.New("it has written into the buffer of another one's message")
		}
		if attack == nil {
			return errors.New("its write has ended as if it had been allowed")
		}
		_, err = c.Recv(bg, nil, victim, 0)
		if err := blames("receive", err); err != nil {
			return err
		}
		guessed = true
		if _, err := cleared.Wait(bg); err != nil {
			return err
		}
		return same(buf, 3)
	}, func(x *intruder, c *mplite.Comm) error {
		r, err := c.Isend(content(long, 3), 0, 3)
		if err != nil {
			return err
		}
		if err := x.job.computes(c, func() bool { return guessed }); err != nil {
			return err
		}
		_, err = r.Wait(bg)
		return err
	}))
}

// TestTagsGivenBack: a rank gives all protection tags back that it has taken of a
// NIC that is not its own.
func TestTagsGivenBack(t *testing.T) {
	j := newJob(3, sim.Options{}, small)
	for rank := range j.size {
		j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
			if err := j.rank(nic, rank, func(c *mplite.Comm) error { return around(c, 1) }); err != nil {
				return err
			}
			for range vipl.MaxPtags {
				if _, err := nic.CreatePtag(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, j.run())
}
