// Package crossbar decides which packet leaves a switch by which port, for switches in virtual
// time and live ones.
package crossbar

import (
	"math/bits"

	"github.com/bobnet-go/bobnet/internal/framing"
)

// MaxPorts is the most ports that a switch can have: a turn leads at most that far.
const MaxPorts = framing.MaxTurn + 1

// Crossbar decides which input's packet leaves by which output. It is what both
// carriers' switches are: it knows neither time nor how packets move.
type Crossbar struct {
	outs  []output
	wants [MaxPorts]int8 // for each input, the output that its packet uses or waits for; -1 for none
}

// output is used by one input at a time. Those that wait get it in turn, round robin by
// the numbers of their ports, so that none starves.
type output struct {
	from    int8   // the input that uses it, or -1
	last    int8   // the input that had it last
	waiting uint32 // inputs that wait for it, a bit each
}

// New returns the crossbar of a switch with as many ports.
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

// Turn reads the first octet of a packet that stands at input in. It reports no output
// for one that is no turn, or leads to a port that the switch has not.
func (x *Crossbar) Turn(in int, octet byte) (out int, isTurn, ok bool) {
	delta, isTurn := framing.Turn(octet)
	out = in + delta
	return out, isTurn, isTurn && out >= 0 && out < len(x.outs)
}

// Way reads the turn of a packet that stands at input in. drop is the counter at which a
// packet without way ends, nil for one that goes on by output out: noRoute if the route has
// ended, badTurn if it leads to a port that the switch has not.
func (x *Crossbar) Way(in int, octet byte, noRoute, badTurn *uint64) (out int, drop *uint64) {
	out, isTurn, ok := x.Turn(in, octet)
	switch {
	case !isTurn:
		return out, noRoute
	case !ok:
		return out, badTurn
	}
	return out, nil
}

// Ask has the packet at input in use the output, or wait for it. It reports whether it
// can leave now.
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

// Release ends the use of an output and gives it to the next input that waits, if there
// is one.
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

// Cancel ends the waiting of input in.
func (x *Crossbar) Cancel(in int) {
	if out := x.wants[in]; out >= 0 && int(x.outs[out].from) != in {
		x.outs[out].waiting &^= 1 << in
		x.wants[in] = -1
	}
}

// InUse reports whether an input uses or waits for output i, or input i for another one.
func (x *Crossbar) InUse(i int) bool {
	return x.outs[i].from >= 0 || x.outs[i].waiting != 0 || x.wants[i] >= 0
}

// User returns the input that uses an output, or -1.
func (x *Crossbar) User(out int) int { return int(x.outs[out].from) }
