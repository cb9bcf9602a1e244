package fault

import (
	"fmt"
	"time"
)

// Direction says which frames of a link are treated.
type Direction uint8

// The directions. A frame that is lost on the way out has cost the sender its
// system call no less, so Tx is enough for most tests.
const (
	Tx   Direction = iota // frames that the link sends; the default
	Rx                    // frames that it receives
	Both                  // each direction, with random numbers of its own
)

// Action is what happens to a frame: a set of faults, or none.
type Action uint8

// The faults. Drop outdoes the others.
const (
	Pass    Action = 0
	Drop    Action = 1 << iota // lose it
	Dup                        // deliver it twice
	Reorder                    // let later frames overtake it
	Corrupt                    // flip some of its bits behind the Ethernet header
)

// Script decides what happens to frame n, counted from 0 per direction, in
// place of chance. dir is Tx or Rx. It may read frame until it returns.
type Script func(dir Direction, n uint64, frame []byte) Action

// Options say what goes wrong. The zero Options: nothing does.
type Options struct {
	// Seed of all choices: the same seed and the same frames have the same
	// faults.
	Seed uint64
	// Dir says which frames are treated.
	Dir Direction
	// Probabilities, 0 to 1, that a frame is lost, duplicated, overtaken or
	// corrupted, each on its own.
	Drop, Dup, Reorder, Corrupt float64
	// ReorderBy is the most frames that may overtake a reordered one. 0: 8.
	ReorderBy int
	// ReorderWait is how long a reordered frame waits for others to overtake
	// it before it goes anyway. 0: 1 ms.
	ReorderWait time.Duration
	// Delay of every frame, and up to how much more of it by chance. Jitter
	// above the time between frames reorders them.
	Delay, Jitter time.Duration
	// Script takes the place of the probabilities if it is not nil.
	Script Script
}

func (o Options) withDefaults() Options {
	if o.ReorderBy <= 0 {
		o.ReorderBy = 8
	}
	if o.ReorderWait <= 0 {
		o.ReorderWait = time.Millisecond
	}
	return o
}

// covers reports whether dir is to be treated.
func (o *Options) covers(dir Direction) bool { return o.Dir == Both || o.Dir == dir }

// corrupts reports whether frames may come out changed.
func (o *Options) corrupts() bool { return o.Corrupt > 0 || o.Script != nil }

// Pattern returns a script that repeats a pattern of one letter a frame, the
// same in each direction:
//
//	.  pass
//	x  drop
//	2  duplicate
//	r  reorder
//	c  corrupt
//
// "...x" loses every fourth frame. An empty pattern passes everything.
func Pattern(pattern string) (Script, error) {
	actions := make([]Action, len(pattern))
	for i, letter := range []byte(pattern) {
		action, ok := letters[letter]
		if !ok {
			return nil, fmt.Errorf("fault: pattern %q: letter %q at %d is none of . x 2 r c", pattern, letter, i)
		}
		actions[i] = action
	}
	return func(_ Direction, n uint64, _ []byte) Action {
		if len(actions) == 0 {
			return Pass
		}
		return actions[n%uint64(len(actions))]
	}, nil
}

var letters = map[byte]Action{'.': Pass, 'x': Drop, '2': Dup, 'r': Reorder, 'c': Corrupt}
