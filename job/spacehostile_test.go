package job_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// oddSeat is a seat whose space is slow, or changes what it gives.
type oddSeat struct {
	job.Space
	w     *world
	slow  time.Duration
	alter func(key, value string) string
}

func (s *oddSeat) Put(ctx context.Context, key, value string) error {
	return errors.Join(s.w.Sleep(s.slow), s.Space.Put(ctx, key, value))
}

func (s *oddSeat) Get(ctx context.Context, key string) (string, error) {
	if err := s.w.Sleep(s.slow); err != nil {
		return "", err
	}
	value, err := s.Space.Get(ctx, key)
	if err == nil && s.alter != nil {
		value = s.alter(key, value)
	}
	return value, err
}

// TestOddSpace: a launcher whose key-value space is slow delays a job, and one that shortens values or
// gives wrong ones ends it: each rank ends with an error, or has met all others, soon after its time is up.
func TestOddSpace(t *testing.T) {
	const size = 8
	place := func(mac ethertype.MAC, port uint16) func(string, string) string {
		return func(string, string) string {
			return job.Value(ethertype.Addr{MAC: mac, Port: port}, [2]uint32{}, 7)
		}
	}
	for name, tc := range map[string]struct {
		slow  time.Duration
		alter func(rng *rand.Rand) func(key, value string) string
		meets bool
	}{
		"slow":      {slow: 200 * time.Millisecond, meets: true},
		"shortened": {alter: func(*rand.Rand) func(string, string) string { return func(_, v string) string { return v[:len(v)/2] } }},
		"empty":     {alter: func(*rand.Rand) func(string, string) string { return func(string, string) string { return "" } }},
		"long": {alter: func(*rand.Rand) func(string, string) string {
			return func(_, v string) string { return strings.Repeat(v, 1000) }
		}},
		"bytes": {alter: func(rng *rand.Rand) func(string, string) string {
			return func(_, v string) string {
				b := []byte(v)
				b[rng.IntN(len(b))] = byte(rng.Uint32())
				return string(b)
			}
		}},
		"nobody":    {alter: func(*rand.Rand) func(string, string) string { return place(ethertype.MAC{2, 9, 9, 9, 9, 9}, 5) }},
		"group":     {alter: func(*rand.Rand) func(string, string) string { return place(ethertype.MAC{3, 9, 9, 9, 9, 9}, 5) }},
		"zero":      {alter: func(*rand.Rand) func(string, string) string { return place(ethertype.MAC{}, 0) }},
		"one place": {alter: func(*rand.Rand) func(string, string) string { return place(ethertype.MAC{2, 0, 0, 0, 0, 1}, 2) }},
	} {
		seeds(t, 4, func(seed uint64) error {
			w := newWorld(size, sim.Options{Seed: seed})
			w.cfg.Timeout = 5 * time.Second
			s := newSpace(t, w)
			rng := rand.New(rand.NewPCG(seed, 1))
			t.Cleanup(job.SetSpace(func(id *job.Identity) job.Space {
				odd := &oddSeat{Space: s.of(id), w: w, slow: tc.slow}
				if tc.alter != nil {
					odd.alter = tc.alter(rng)
				}
				return odd
			}))
			met := 0
			for rank := range size {
				w.host(fmt.Sprint("rank ", rank), 0, func(nic *vipl.NIC) error {
					m, err := w.join(bg, nic, rank)
					if err == nil {
						met++
						err = m.Leave(bg)
					}
					if now := w.now(); now > w.cfg.Timeout+2*time.Second {
						return fmt.Errorf("%s: it ended at %v: %w", name, now, err)
					}
					if tc.meets {
						return err
					}
					return nil
				})
			}
			if err := w.run(); err != nil {
				return err
			}
			if tc.meets != (met == size) && name != "bytes" {
				return fmt.Errorf("%s: %d ranks have met", name, met)
			}
			return nil
		})
	}
}
