package code

import (
	"fmt"
	"slices"
)

// State is a VI's state (VIP_VI_STATE).
type State uint8

// The states, in VIPL's order.
const (
	StateIdle State = iota
	StateConnected
	StateConnectPending
	StateError
)

var stateNames = [...]string{"idle", "connected", "connect pending", "error"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// MarshalText returns the same text as String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("vipl: invalid VI state %q", text)
	}
	*s = State(i)
	return nil
}
