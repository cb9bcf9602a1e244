package sim

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// Options configure a world. The zero value is a fast segment without faults. Probabilities are per
// frame and receiver, between 0 and 1.
type Options struct {
	Seed uint64 // seed of all random choices

	MTU       int           // MTU of every station; 0 means 1500
	Long      LongPath      // path of every station's long frames; 0 means LongNone
	Delay     time.Duration // delay from a station through the switch to the receiver, without queues; 0 means 10 µs
	Jitter    time.Duration // maximum additional delay; each sender's frames stay in order
	Bandwidth int64         // bandwidth of every uplink and every output of the switch, bits per second; 0 means infinite
	Queue     int           // capacity in frames of each output of the switch; 0 means 512
	TxSlots   int           // frames that each station's uplink holds; 0 means 4096
	RxSlots   int           // frames that each station's receive queue holds; 0 means 4096

	Loss      float64       // a frame is lost
	Burst     Burst         // frames are lost in bursts
	Dup       float64       // a frame arrives twice
	Reorder   float64       // a frame is overtaken by others
	ReorderBy int           // most frames that overtake it, up to 64; 0 means 3
	Hold      time.Duration // longest time that it waits to be overtaken; 0 means 1 ms
	Corrupt   float64       // one to eight bits flip, anywhere in the frame

	Limit time.Duration // maximum virtual time of a run; 0 means 10 minutes

	Log io.Writer // if not nil, receives a line for each frame that was delivered or dropped
}

// Burst is the loss model of Gilbert and Elliott: each receiver's line is in a good or a bad state,
// and loses frames in the bad state.
type Burst struct {
	Enter float64 // probability, at each frame, that a good line becomes bad; 0 disables bursts
	Leave float64 // probability, at each frame, that a bad line becomes good
	Loss  float64 // probability that a bad line loses a frame; 0 means 1
}

// StationOptions configure a station. The zero value means the world's Options.
type StationOptions struct {
	Name      string             // name for display; "" means "s1", "s2", ...
	MAC       ethertype.MAC      // zero means 02:00:00:00:00:01 and so on; that of a living station replaces the station
	EtherType ethernet.EtherType // 0 means ethertype.Default
	Ports     transport.PortRange
	MTU       int
	Long      LongPath
	Bandwidth int64 // bits per second; negative is infinite
	Queue     int
	TxSlots   int
	RxSlots   int
}

const (
	defaultMTU       = 1500
	defaultDelay     = 10 * time.Microsecond
	defaultQueue     = 512
	defaultSlots     = 4096
	defaultReorderBy = 3
	maxReorderBy     = 64
	defaultHold      = time.Millisecond
	defaultLimit     = 10 * time.Minute
)

func (o Options) withDefaults() Options {
	setDefault(&o.MTU, defaultMTU)
	setDefault(&o.Delay, defaultDelay)
	setDefault(&o.Queue, defaultQueue)
	setDefault(&o.TxSlots, defaultSlots)
	setDefault(&o.RxSlots, defaultSlots)
	setDefault(&o.ReorderBy, defaultReorderBy)
	setDefault(&o.Hold, defaultHold)
	setDefault(&o.Limit, defaultLimit)
	setDefault(&o.Burst.Loss, 1)
	o.check()
	return o
}

func (o StationOptions) withDefaults(w *Options) StationOptions {
	setDefault(&o.EtherType, ethertype.Default)
	setDefault(&o.Ports, transport.AllPorts)
	setDefault(&o.MTU, w.MTU)
	setDefault(&o.Long, w.Long)
	setDefault(&o.Bandwidth, w.Bandwidth)
	setDefault(&o.Queue, w.Queue)
	setDefault(&o.TxSlots, w.TxSlots)
	setDefault(&o.RxSlots, w.RxSlots)
	o.Bandwidth = max(o.Bandwidth, 0)
	checkRange("MTU", o.MTU, ethertype.MinMTU, ethertype.MaxMTU)
	checkRange("Queue", o.Queue, 1, math.MaxInt32)
	checkRange("TxSlots", o.TxSlots, 1, math.MaxInt32)
	checkRange("RxSlots", o.RxSlots, 1, math.MaxInt32)
	return o
}

func (o *Options) check() {
	checkRange("MTU", o.MTU, ethertype.MinMTU, ethertype.MaxMTU)
	checkRange("Bandwidth", o.Bandwidth, 0, math.MaxInt64)
	checkRange("ReorderBy", o.ReorderBy, 1, maxReorderBy)
	for _, d := range []time.Duration{o.Delay, o.Jitter, o.Hold, o.Limit} {
		checkRange("duration", d, 0, math.MaxInt64/4)
	}
	b := o.Burst
	for _, p := range []float64{o.Loss, o.Dup, o.Reorder, o.Corrupt, b.Enter, b.Leave, b.Loss} {
		checkRange("probability", p, 0, 1)
	}
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func checkRange[T int | int64 | float64 | time.Duration](what string, v, lo, hi T) {
	if !(v >= lo && v <= hi) {
		panic(fmt.Sprintf("sim: %s %v is not in %v..%v", what, v, lo, hi))
	}
}
