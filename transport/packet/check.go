package packet

import "github.com/bobnet-go/bobnet/transport"

var _ transport.Checker = (*Link)(nil)

// Check implements transport.Checker.
func (l *Link) Check() error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	var found error
	if err := l.raw.Control(func(fd uintptr) { found = l.station.Check(int(fd)) }); err != nil {
		return transport.ErrClosed
	}
	return found
}
