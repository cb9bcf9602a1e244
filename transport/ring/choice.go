package ring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Choice says whether a link uses a way of sending or receiving that is faster for some
// frames, on some interfaces.
type Choice uint8

// The choices. With Auto the link decides, as Config says for each way: by a measurement
// at Open, or by the type of the interface. With On it uses the way, and Open fails where
// that is not possible.
const (
	Auto Choice = iota
	Off
	On
)

var choiceNames = [...]string{"auto", "off", "on"}

// String returns the name that ParseChoice understands.
func (c Choice) String() string {
	if int(c) >= len(choiceNames) {
		return fmt.Sprintf("Choice(%d)", uint8(c))
	}
	return choiceNames[c]
}

// ParseChoice returns the choice of the name auto, off or on. The error wraps
// EINVAL.
func ParseChoice(name string) (Choice, error) {
	for c, n := range choiceNames {
		if n == name {
			return Choice(c), nil
		}
	}
	return 0, fmt.Errorf("transport: choice %q: %w: want one of %v", name, unix.EINVAL, choiceNames)
}
