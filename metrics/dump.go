package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// dumpPatience is how long a dump waits for each NIC, node and rank. One whose lock
// somebody holds for longer is reported as stuck, which then is the finding.
var dumpPatience = 2 * time.Second

// Dump is the state of everything that a Collector watches. Encoded as JSON it
// has times in nanoseconds.
type Dump struct {
	Time  time.Time
	PID   int
	Stuck []string `json:",omitempty"` // what did not answer
	NICs  []vipl.Snapshot
	Nodes []endpoint.Snapshot `json:",omitempty"`
	Rank  *mplite.Pending     `json:",omitempty"`
	Stats *mplite.Stats       `json:",omitempty"` // of the rank
}

// Dump takes a snapshot of everything that c watches.
func (c *Collector) Dump() *Dump {
	d := &Dump{Time: time.Now(), PID: os.Getpid()}
	for i, n := range c.nics.list() {
		if s, ok := within(n.it.Snapshot); ok {
			d.NICs = append(d.NICs, s)
		} else {
			d.stuck(fmt.Sprintf("NIC %d", i))
		}
	}
	for i, n := range c.nodes.list() {
		if s, ok := within(n.it.Snapshot); ok {
			d.Nodes = append(d.Nodes, s)
		} else {
			d.stuck(fmt.Sprintf("node %d", i))
		}
	}
	if comm := c.rankComm(); comm != nil {
		s, ok := within(func() rankState { return rankState{comm.Snapshot(), comm.Pending()} })
		if ok {
			d.Rank, d.Stats = &s.Pending, &s.Stats
		} else {
			d.stuck("rank")
		}
	}
	return d
}

func (d *Dump) stuck(what string) {
	d.Stuck = append(d.Stuck, fmt.Sprintf("%s does not answer: its lock has been held for %v; the goroutines' stacks say by whom", what, dumpPatience))
}

// within returns what f returns, unless that takes longer than dumpPatience.
func within[T any](f func() T) (result T, ok bool) {
	ch := make(chan T, 1)
	go func() { ch <- f() }()
	select {
	case result = <-ch:
		return result, true
	case <-time.After(dumpPatience):
		return result, false
	}
}

// WriteTo writes the dump as text: the rank, the nodes, then the NICs. It implements
// io.WriterTo.
func (d *Dump) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "bobnet: process %d at %s\n", d.PID, d.Time.Format(time.RFC3339Nano))
	for _, line := range d.Stuck {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	if d.Rank != nil {
		b.WriteByte('\n')
		d.Rank.WriteTo(&b) // a buffer takes everything
	}
	for i := range d.Nodes {
		b.WriteByte('\n')
		d.Nodes[i].WriteTo(&b)
	}
	for i := range d.NICs {
		b.WriteByte('\n')
		d.NICs[i].WriteTo(&b)
	}
	if len(d.NICs) == 0 && len(d.Nodes) == 0 && d.Rank == nil && len(d.Stuck) == 0 {
		b.WriteString("no NIC is open and no rank has joined a job\n")
	}
	return b.WriteTo(w)
}

// DumpHandler serves dumps: as text, or with ?format=json as JSON.
func (c *Collector) DumpHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch format := r.URL.Query().Get("format"); format {
		case "", "text":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			c.Dump().WriteTo(w) // if it fails the client is gone
		case "json":
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			enc.Encode(c.Dump())
		default:
			http.Error(w, fmt.Sprintf("format %q is none of text, json", format), http.StatusBadRequest)
		}
	})
}
