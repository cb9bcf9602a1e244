package ring

import "github.com/bobnet-go/bobnet/transport"

var _ transport.Checker = (*Link)(nil)

// Check implements transport.Checker.
func (l *Link) Check() error {
	if !l.gate.Enter() {
		return transport.ErrClosed
	}
	defer l.gate.Leave()
	return l.station.Check(l.rx.fd)
}
