package reliability

import "fmt"

// Level is the reliability level of a virtual interface. The values are VIPL's bits, so that a
// Level can also hold a set of levels.
type Level uint8

// The levels (VIPL reference, section 10).
const (
	Unreliable        Level = 1 // at most once
	ReliableDelivery  Level = 2 // exactly once; a send completes when the peer's interface has the message
	ReliableReception Level = 4 // exactly once; a send completes when the message is in the peer's memory
)

// Valid reports whether l is exactly one of the three levels.
func (l Level) Valid() bool {
	return l == Unreliable || l == ReliableDelivery || l == ReliableReception
}

// Reliable reports whether frames at level l are acknowledged and retransmitted.
func (l Level) Reliable() bool { return l == ReliableDelivery || l == ReliableReception }

// String returns the name in flags and tables: "unreliable", "delivery" or "reception".
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

// MarshalText returns the same text as String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses the output of MarshalText, including that of a set of levels.
func (l *Level) UnmarshalText(text []byte) error {
	for i := range 1 << 8 {
		if Level(i).String() == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("reliability: unknown level %q", text)
}

// Verdict is the decision of a Receiver or a Filter about a sequence number.
type Verdict uint8

// The verdicts.
const (
	Accept    Verdict = iota // new: accept the frame
	Duplicate                // accepted before, or too old to tell
	Ahead                    // ahead of every window: drop the frame
)

// String returns the verdict in lower case, as in the labels of counters.
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
