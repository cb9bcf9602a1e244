package fault

import (
	"fmt"
	"time"
)

// Direction selects the frames of a link that faults apply to.
type Direction uint8

// The directions. A frame that is lost on transmission still costs the sender its system call, so
// Tx is enough for most tests.
const (
	Tx   Direction = iota // frames that the link sends; the default
	Rx                    // frames that it receives
	Both                  // each direction, with separate random numbers
)

// Action is a set of faults for one frame; 0 means none.
type Action uint8

// The faults. Drop overrides the others.
const (
	Pass    Action = 0
	Drop    Action = 1 << iota // lose it
	Dup                        // deliver it twice
	Reorder                    // let later frames overtake it
	Corrupt                    // flip some of its bits after the Ethernet header
)

// Script decides the faults of frame n, counted from 0 per direction, instead of chance. dir is Tx
// or Rx. It must not keep frame after it returns.
type Script func(dir Direction, n uint64, frame []byte) Action

// Options select the faults. The zero Options inject none.
type Options struct {
	// Seed of all random choices: the same seed and the same frames give the same faults.
	Seed uint64
	// Dir selects the frames.
	Dir Direction
	// Probabilities, from 0 to 1, that a frame is lost, duplicated, reordered or corrupted. They
	// are independent.
	Drop, Dup, Reorder, Corrupt float64
	// ReorderBy is the most frames that may overtake a reordered one; 0 means 8.
	ReorderBy int
	// ReorderWait is the longest time that a reordered frame waits to be overtaken; 0 means 1 ms.
	ReorderWait time.Duration
	// Delay is added to every frame, and a random part of Jitter in addition. Jitter above the time
	// between frames reorders them.
	Delay, Jitter time.Duration
	// Script replaces the probabilities if it is not nil.
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

// covers reports whether faults apply to the frames of direction dir.
func (o *Options) covers(dir Direction) bool { return o.Dir == Both || o.Dir == dir }

// corrupts reports whether frames may be changed.
func (o *Options) corrupts() bool { return o.Corrupt > 0 || o.Script != nil }

// Pattern returns a script that repeats a pattern with one letter for each frame, separately in
// each direction:
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
			return nil, fmt.Errorf("fault: pattern %q: invalid letter %q at %d (want . x 2 r or c)", pattern, letter, i)
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
