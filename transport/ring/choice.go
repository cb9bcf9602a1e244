package ring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Choice says whether a link takes a way that is faster for some frames, on some
// interfaces.
type Choice uint8

// The choices. Auto leaves it to the link, by what Config says of each way: a
// measurement, at Open or in the first stream, or the type of the interface. On
// takes the way, and Open fails where it cannot be had.
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
