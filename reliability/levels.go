package reliability

import "fmt"

// Level is a reliability level of a virtual interface. The values are VIPL's
// bits, so that a set of levels fits in one Level as well.
type Level uint8

// The levels (VIPL reference, section 10).
const (
	Unreliable        Level = 1 // at most once
	ReliableDelivery  Level = 2 // exactly once; a send completes when the peer's interface has it
	ReliableReception Level = 4 // exactly once; a send completes when it lies in the peer's memory
)

// Valid reports whether l is exactly one of the three levels.
func (l Level) Valid() bool {
	return l == Unreliable || l == ReliableDelivery || l == ReliableReception
}

// Reliable reports whether frames at level l are acknowledged and sent again.
func (l Level) Reliable() bool { return l == ReliableDelivery || l == ReliableReception }

// String returns the name that flags and tables use: "unreliable", "delivery"
// or "reception".
func (l Level) String() string {
	switch l {
	case Unreliable:
		return "unreliable"
	case ReliableDelivery:
		return "delivery"
	case ReliableReception:
		return "reception"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// MarshalText returns what String does.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText writes, of several levels at once, too.
func (l *Level) UnmarshalText(text []byte) error {
	for i := range 1 << 8 {
		if Level(i).String() == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("reliability: %q is no level", text)
}

// Verdict is what a Receiver or a Filter says of a sequence number.
type Verdict uint8

// The verdicts.
const (
	Accept    Verdict = iota // new: take the frame
	Duplicate                // taken before, or too old to tell
	Ahead                    // further ahead than any window allows: drop the frame
)

// String returns the verdict in lower case, as counters are labelled.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case Duplicate:
		return "duplicate"
	case Ahead:
		return "ahead"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}
