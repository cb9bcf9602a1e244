package ring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Choice selects whether a link uses an optional method of sending or receiving, which is faster
// for some frames on some interfaces.
type Choice uint8

// The choices. With Auto the link decides as Config documents for each method: by a measurement at
// Open, or by the type of the interface. With On it uses the method, and Open fails if that is
// impossible.
const (
	Auto Choice = iota
	Off
	On
)

var choiceNames = [...]string{"auto", "off", "on"}

// String returns the name that ParseChoice accepts.
func (c Choice) String() string {
	if int(c) >= len(choiceNames) {
		return fmt.Sprintf("Choice(%d)", uint8(c))
	}
	return choiceNames[c]
}

// ParseChoice parses auto, off or on. The error wraps EINVAL.
func ParseChoice(name string) (Choice, error) {
	for c, n := range choiceNames {
		if n == name {
			return Choice(c), nil
		}
	}
	return 0, fmt.Errorf("transport: choice %q: %w: want one of %v", name, unix.EINVAL, choiceNames)
}
