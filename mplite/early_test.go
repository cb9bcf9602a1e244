package mplite_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestEarlyEndOfInit: rank 2 does not come. Rank 0 waits for it to connect, rank 3
// asks for its address, and rank 1, which is connected with both, ends meanwhile.
// They learn it at once, and name who is to blame: rank 1 if it has died, and
// rank 2 if rank 1 leaves because it has no more time.
func TestEarlyEndOfInit(t *testing.T) {
	const mortal, missing, size = 1, 2, 4
	const end, peerTimeout = time.Second, 300 * time.Millisecond
	for _, tc := range []struct {
		name   string
		blamed int
		late   time.Duration
	}{
		{"closes", mortal, 0},
		{"is killed", mortal, peerTimeout},
		{"leaves", missing, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := small
			cfg.PeerTimeout, cfg.Timeout = peerTimeout, time.Minute
			j := newJob(size, sim.Options{}, cfg)
			patient := func(rank int) {
				j.host(fmt.Sprint("rank ", rank), func(nic *vipl.NIC) error {
					err := j.rank(nic, rank, nil)
					var failed *mplite.RankError
					if !errors.As(err, &failed) || failed.Rank != tc.blamed {
						return fmt.Errorf("%w, want that rank %d failed", err, tc.blamed)
					}
					if took := time.Duration(j.Now() - sim.Start); took > end+tc.late+500*time.Millisecond {
						return fmt.Errorf("only after %v: %w", took, err)
					}
					return nil
				})
			}
			patient(0)
			j.host("mortal", func(nic *vipl.NIC) error {
				own := *j
				switch tc.name {
				case "leaves":
					own.cfg.Timeout = end
				case "closes":
					j.At(sim.Start+int64(end), func() { nic.Close() })
				default:
					j.At(sim.Start+int64(end), func() { j.Kill(j.stations[mortal]) })
				}
				if err := own.rank(nic, mortal, nil); err == nil {
					return errors.New("the job has come together without rank 2")
				}
				return nil
			})
			patient(3)
			check(t, j.run())
		})
	}
}
