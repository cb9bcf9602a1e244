// Package report prints the measurements of a run of a parallel application: time by phase, traffic
// and speed-up, as text or as one line of JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Count is a number of operations and of the bytes that they moved.
type Count struct {
	Operations int64 `json:"operations"`
	Bytes      int64 `json:"bytes"`
}

// Add counts one operation that moves some bytes.
func (c *Count) Add(bytes int) {
	c.Operations++
	c.Bytes += int64(bytes)
}

// Traffic counts the requests between ranks. In a message-passing program messages count as stores,
// and there are no others.
type Traffic struct {
	Get   Count `json:"get"`
	Put   Count `json:"put"`
	Store Count `json:"store"`
}

// Time is the duration of a phase, in seconds.
type Time struct {
	Phase string  `json:"phase"`
	Waits bool    `json:"waits"`
	Mean  float64 `json:"mean_seconds"` // over the ranks
	Max   float64 `json:"max_seconds"`  // of the rank with the longest time
}

// Report is a run of an application. The JSON names are its format for other programs.
type Report struct {
	App        string             `json:"app"`
	Size       string             `json:"size"`
	Layer      string             `json:"layer"` // the communication layer
	Ranks      int                `json:"ranks"`
	Processors int                `json:"processors"`
	Crowded    bool               `json:"crowded"` // more ranks than processors of this host
	Seconds    float64            `json:"seconds"` // time of the slowest rank, without start and end
	Compute    float64            `json:"compute_seconds"`
	Wait       float64            `json:"wait_seconds"` // Compute and Wait are averages over the ranks
	Times      []Time             `json:"phases"`
	Traffic    Traffic            `json:"traffic"` // sum over all ranks
	Facts      map[string]float64 `json:"facts,omitempty"`
	Serial     float64            `json:"serial_seconds,omitempty"`
	SpeedUp    float64            `json:"speed_up,omitempty"`
	Checked    string             `json:"checked,omitempty"` // what the result was compared with; empty: not compared
}

// EnvProcessors is the variable with the number of processors of all ranks, if each rank is bound
// to one processor and sees no other (bobnet lab --bind, bobnet run --bind).
const EnvProcessors = "BOBNET_PROCESSORS"

// New returns a report without times.
func New(app, size, layer string, ranks int) *Report {
	n := runtime.NumCPU()
	if bound, err := strconv.Atoi(os.Getenv(EnvProcessors)); err == nil {
		n = bound
	}
	return &Report{App: app, Size: size, Layer: layer, Ranks: ranks, Processors: n, Crowded: ranks > n}
}

// Fill sets the times and the traffic from sum and longest, the element-wise sum and maximum of the
// Timer.Values of all ranks. t is the timer of any rank, and gives the meaning of the values.
func (r *Report) Fill(t *Timer, sum, longest []float64) {
	r.Seconds = longest[0]
	r.Compute, r.Wait, r.Times = 0, 0, nil
	for i, p := range t.phases {
		mean := sum[1+i] / float64(r.Ranks)
		r.Times = append(r.Times, Time{p.Name, p.Waits, mean, longest[1+i]})
		if p.Waits {
			r.Wait += mean
		} else {
			r.Compute += mean
		}
	}
	rest := sum[1+len(t.phases):]
	for i, c := range []*Count{&r.Traffic.Get, &r.Traffic.Put, &r.Traffic.Store} {
		*c = Count{int64(rest[2*i]), int64(rest[2*i+1])}
	}
}

// Fact adds a figure that only this application has.
func (r *Report) Fact(name string, value float64) {
	if r.Facts == nil {
		r.Facts = map[string]float64{}
	}
	r.Facts[name] = value
}

// Against sets the time that one process alone needed for the same work.
func (r *Report) Against(serial time.Duration) {
	r.Serial = serial.Seconds()
	if r.Seconds > 0 {
		r.SpeedUp = r.Serial / r.Seconds
	}
}

// JSON writes the report as one line.
func (r *Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Text writes the report as text.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	ranks := "ranks"
	if r.Ranks == 1 {
		ranks = "rank"
	}
	fmt.Fprintf(&b, "%s, %s: %d %s over %s took %s: %s computing, %s waiting\n",
		r.App, r.Size, r.Ranks, ranks, r.Layer, seconds(r.Seconds), seconds(r.Compute), seconds(r.Wait))
	if r.Crowded {
		fmt.Fprintf(&b, "  (more ranks than the %d processors of this host)\n", r.Processors)
	}
	for _, t := range r.Times {
		kind := "computing"
		if t.Waits {
			kind = "waiting"
		}
		fmt.Fprintf(&b, "  %-24s %-9s mean %8s  longest %8s\n", t.Phase, kind, seconds(t.Mean), seconds(t.Max))
	}
	for _, c := range []struct {
		name string
		Count
	}{{"get", r.Traffic.Get}, {"put", r.Traffic.Put}, {"store", r.Traffic.Store}} {
		fmt.Fprintf(&b, "  %-5s %9d operations, %12d bytes\n", c.name, c.Operations, c.Bytes)
	}
	var names []string
	for name := range r.Facts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "  %s %.6g\n", name, r.Facts[name])
	}
	if r.Serial > 0 {
		fmt.Fprintf(&b, "  one process alone took %s: a speed-up of %.2f\n", seconds(r.Serial), r.SpeedUp)
	}
	if r.Checked != "" {
		fmt.Fprintf(&b, "  checked: %s\n", r.Checked)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// seconds formats a time with four significant digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}
