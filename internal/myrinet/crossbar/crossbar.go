// Package crossbar decides which packet leaves a switch by which port, for live switches and for
// switches in virtual time.
package crossbar

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// MaxPorts is the maximum number of ports of a switch: a turn cannot address more.
const MaxPorts = framing.MaxTurn + 1

// Crossbar decides which input's packet leaves by which output. The switches of both carriers use
// it. It knows neither time nor how packets move.
type Crossbar struct {
	outs  []output
	wants [MaxPorts]int8 // for each input, the output that its packet uses or waits for; -1 for none
}

// output is used by one input at a time. The inputs that wait get it round-robin by port number, so
// that none starves.
type output struct {
	from    int8   // the input that uses it, or -1
	last    int8   // the input that used it last
	waiting uint32 // waiting inputs, a bit each
}

// New returns the crossbar of a switch with the given number of ports.
func New(ports int) Crossbar {
	x := Crossbar{outs: make([]output, ports)}
	for i := range x.outs {
		x.outs[i] = output{from: -1, last: int8(ports - 1)}
	}
	for i := range x.wants {
		x.wants[i] = -1
	}
	return x
}

// Turn decodes the first byte of the packet at input in. isTurn is false if the byte is not a turn,
// and ok is false also if the turn leads to a port that does not exist.
func (x *Crossbar) Turn(in int, first byte) (out int, isTurn, ok bool) {
	delta, isTurn := framing.Turn(first)
	out = in + delta
	return out, isTurn, isTurn && out >= 0 && out < len(x.outs)
}

// Way decodes the turn of the packet at input in. If the packet cannot proceed, drop is the counter
// to increment: noRoute if the route has ended, badTurn if the turn leads to a port that does not
// exist. Otherwise drop is nil, and the packet leaves by output out.
func (x *Crossbar) Way(in int, first byte, noRoute, badTurn *uint64) (out int, drop *uint64) {
	out, isTurn, ok := x.Turn(in, first)
	switch {
	case !isTurn:
		return out, noRoute
	case !ok:
		return out, badTurn
	}
	return out, nil
}

// Ask requests output out for the packet at input in. It reports whether the packet can leave now.
// Otherwise the input waits until Release gives it the output.
func (x *Crossbar) Ask(in, out int) bool {
	o := &x.outs[out]
	x.wants[in] = int8(out)
	if o.from >= 0 {
		o.waiting |= 1 << in
		return false
	}
	o.from = int8(in)
	return true
}

// Release frees an output and gives it to the next waiting input, if any.
func (x *Crossbar) Release(out int) (in int, ok bool) {
	o := &x.outs[out]
	if o.from >= 0 {
		x.wants[o.from] = -1
		o.last = o.from
	}
	o.from = -1
	if o.waiting == 0 {
		return 0, false
	}
	after := o.waiting &^ (2<<o.last - 1)
	if after == 0 {
		after = o.waiting
	}
	in = bits.TrailingZeros32(after)
	o.waiting &^= 1 << in
	o.from = int8(in)
	return in, true
}

// Cancel ends the wait of input in.
func (x *Crossbar) Cancel(in int) {
	if out := x.wants[in]; out >= 0 && int(x.outs[out].from) != in {
		x.outs[out].waiting &^= 1 << in
		x.wants[in] = -1
	}
}

// InUse reports whether an input uses or waits for output i, or input i uses or waits for an
// output.
func (x *Crossbar) InUse(i int) bool {
	return x.outs[i].from >= 0 || x.outs[i].waiting != 0 || x.wants[i] >= 0
}

// User returns the input that uses an output, or -1.
func (x *Crossbar) User(out int) int { return int(x.outs[out].from) }
