package splitc_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// blackHole is how long a process hears nobody, and nobody hears it.
const blackHole = 5 * time.Second

// TestModelStorm: TestModel's programs where 30 % of the frames are lost, 10 % doubled and
// 20 % overtaken by up to 64 others, and where a process is in a black hole for five seconds,
// from a random place of its program on. What they return and leave behind is the same.
func TestModelStorm(t *testing.T) {
	eachLayer(t, func(t *testing.T, layer string) {
		seeds(t, 3, func(seed uint64) error {
			m := newModel(seed)
			opts := sim.Options{Seed: seed, Loss: 0.3, Dup: 0.1, Reorder: 0.2, ReorderBy: 64}
			p := newProgram(m.procs, opts, splitc.Config{Layer: layer})
			p.start(m.run)
			healed := false
			m.upset = anywhere(rand.New(rand.NewPCG(seed, 98)), m)
			victim := m.upset.proc
			m.upset.do = func() {
				p.Isolate(p.stations[victim])
				p.At(p.Now()+int64(blackHole), func() { healed = true; p.Heal() })
			}
			err := errors.Join(p.run(), m.chained())
			if err == nil && !healed {
				err = fmt.Errorf("the program ended before the black hole of rank %d did", victim)
			}
			return err
		})
	})
}

// anywhere returns a random place of a model's program.
func anywhere(rng *rand.Rand, m *model) upset {
	u := upset{round: m.rounds[rng.IntN(len(m.rounds))], proc: rng.IntN(m.procs)}
	u.at = rng.IntN(len(u.round.ops[u.proc]) + 1)
	return u
}
