package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// View combines two samples.
type View struct {
	At       time.Time `json:"at"`      // time of the later sample
	Seconds  float64   `json:"seconds"` // time between the samples; 0: only one sample, without rates
	Stations []Station `json:"stations"`
	VIs      []VI      `json:"vis"`
	Notes    []string  `json:"notes,omitempty"`
}

// Station is a NIC whose program serves metrics, or that answers on the segment.
type Station struct {
	Program   string `json:"program,omitempty"` // "" if it serves no metrics
	Host      string `json:"host,omitempty"`    // name that the station reports on the segment
	Interface string `json:"interface,omitempty"`
	Port      string `json:"port,omitempty"`
	MAC       string `json:"mac,omitempty"`
	Driver    string `json:"driver,omitempty"`
	VIs       int    `json:"vis"`
	Rates
}

// VI is a connection's end.
type VI struct {
	Program   string `json:"program,omitempty"`
	Interface string `json:"interface,omitempty"`
	VI        string `json:"vi"` // its port, or "other" for the sum of several VIs
	Remote    string `json:"remote,omitempty"`
	State     string `json:"state,omitempty"`
	Level     string `json:"level,omitempty"`
	Rates
	InFlight  int     `json:"inFlight"`         // frames
	SendQueue int     `json:"sendQueue"`        // descriptors
	Untaken   int     `json:"untakenReceives"`  // descriptors
	RoundTrip float64 `json:"roundTripSeconds"` // smoothed
	Oldest    float64 `json:"oldestUnacknowledgedSeconds"`
}

// Rates contains the rates of a station or a VI per second. Bytes of a VI are payload; bytes of a
// station include headers.
type Rates struct {
	TxBytes       Rate `json:"transmitBytesPerSecond"`
	RxBytes       Rate `json:"receiveBytesPerSecond"`
	TxFrames      Rate `json:"transmitFramesPerSecond"`
	RxFrames      Rate `json:"receiveFramesPerSecond"`
	Retransmitted Rate `json:"retransmittedFramesPerSecond"`
	Dropped       Rate `json:"droppedFramesPerSecond"`
}

// Rate is a number per second. An unknown rate is NaN, and null in JSON.
type Rate float64

// Unknown is the rate of a counter with one sample.
var Unknown = Rate(math.NaN())

// Known reports whether r is a number.
func (r Rate) Known() bool { return !math.IsNaN(float64(r)) && !math.IsInf(float64(r), 0) }

// MarshalJSON writes a number or null.
func (r Rate) MarshalJSON() ([]byte, error) {
	if !r.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// NewView returns a view of the sample now, with rates since the sample before, which may be nil.
func NewView(before, now *Sample) *View {
	v := &View{At: now.At, Notes: now.Notes, Stations: []Station{}, VIs: []VI{}}
	if before != nil {
		v.Seconds = now.At.Sub(before.At).Seconds()
	} else {
		before = &Sample{}
	}
	known := map[string]bool{}
	for key, n := range now.nics {
		s := Station{Program: key.program, Interface: key.iface, Port: key.port, MAC: n.mac, Driver: n.driver, VIs: whole(n.vis), Rates: unknown()}
		if old := before.nics[key]; old != nil && old.incarnation == n.incarnation {
			s.Rates = rates(&old.total, &n.total, v.Seconds)
		}
		known[n.incarnation] = true
		for _, f := range now.found {
			if fmt.Sprintf("%016x", f.Incarnation) == n.incarnation {
				s.Host = printable(f.HostName)
			}
		}
		v.Stations = append(v.Stations, s)
	}
	for _, f := range now.found {
		if !known[fmt.Sprintf("%016x", f.Incarnation)] {
			v.Stations = append(v.Stations, Station{Host: printable(f.HostName), MAC: f.Addr.MAC.String(), Port: fmt.Sprint(f.Addr.Port), Driver: printable(f.Driver), Rates: unknown()})
		}
	}
	for key, n := range now.vis {
		row := VI{Program: key.program, Interface: key.iface, VI: key.vi, Remote: n.remote, State: n.state, Level: n.level, Rates: unknown(),
			InFlight: whole(n.flight), SendQueue: whole(n.sendQueue), Untaken: whole(n.receiveUnclaimed), RoundTrip: finite(n.roundTrip), Oldest: finite(n.oldest)}
		if old := before.vis[key]; old != nil {
			row.Rates = rates(&old.total, &n.total, v.Seconds)
		}
		v.VIs = append(v.VIs, row)
	}
	v.Sort(ByTraffic)
	return v
}

func unknown() Rates { return Rates{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown} }

// rates returns the increase of the counters per second.
func rates(old, now *totals, seconds float64) Rates {
	return Rates{
		rate(old.txBytes, now.txBytes, seconds), rate(old.rxBytes, now.rxBytes, seconds),
		rate(old.txFrames, now.txFrames, seconds), rate(old.rxFrames, now.rxFrames, seconds),
		rate(old.again, now.again, seconds), rate(old.dropped, now.dropped, seconds),
	}
}

// rate returns the increase per second. It is unknown if the counter was reset.
func rate(old, now, seconds float64) Rate {
	if r := Rate((now - old) / seconds); seconds > 0 && now >= old && r.Known() {
		return r
	}
	return Unknown
}

// finite replaces NaN and infinities from a program; whole also converts to a count.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

func whole(f float64) int { return int(min(max(finite(f), 0), math.MaxInt32)) }

// Order is the sort order of a view.
type Order string

// The orders. Equal or unknown values are ordered by name.
const (
	ByTraffic         Order = "traffic"         // most bytes first
	ByRetransmissions Order = "retransmissions" // most retransmissions first
	ByOldest          Order = "oldest"          // the oldest unacknowledged frame first; stations as by retransmissions
	ByName            Order = "name"
)

// Sort orders the stations and VIs.
func (v *View) Sort(by Order) {
	slices.SortFunc(v.Stations, func(a, b Station) int {
		return cmp.Or(-cmp.Compare(a.Rates.weight(by), b.Rates.weight(by)),
			cmp.Compare(a.Program, b.Program), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(v.VIs, func(a, b VI) int {
		first := -cmp.Compare(a.Rates.weight(by), b.Rates.weight(by))
		if by == ByOldest {
			first = -cmp.Compare(a.Oldest, b.Oldest)
		}
		return cmp.Or(first, cmp.Compare(a.Program, b.Program), cmp.Compare(a.Interface, b.Interface), cmp.Compare(len(a.VI), len(b.VI)), cmp.Compare(a.VI, b.VI))
	})
}

// weight returns the sort key of an order.
func (r *Rates) weight(by Order) float64 {
	w := 0.0
	switch by {
	case ByTraffic:
		w = float64(r.TxBytes + r.RxBytes)
	case ByRetransmissions, ByOldest:
		w = float64(r.Retransmitted)
	}
	return finite(w)
}
