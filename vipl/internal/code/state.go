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

// MarshalText returns what String does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("vipl: invalid VI state %q", text)
	}
	*s = State(i)
	return nil
}
