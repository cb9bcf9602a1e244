package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/daemon"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

// dumpPatience is how long a dump waits for each NIC, card, node, process, server and rank. An object
// whose lock is held for longer is reported as stuck, which is then the likely problem.
var dumpPatience = 2 * time.Second

// Dump is the state of everything that a Collector watches. Its JSON encoding has times in
// nanoseconds.
type Dump struct {
	Time  time.Time
	PID   int
	Stuck []string `json:",omitempty"` // objects that did not answer
	NICs  []vipl.Snapshot
	Nodes []endpoint.Snapshot `json:",omitempty"`
	Rank  *mplite.Pending     `json:",omitempty"`
	Stats *mplite.Stats       `json:",omitempty"` // of the rank

	Processes []vmmc.Snapshot `json:",omitempty"`
	Servers   []vrpc.Snapshot `json:",omitempty"`

	Worlds []splitc.Snapshot `json:",omitempty"`

	Streams []stream.Snapshot `json:",omitempty"`

	Daemons []daemon.Snapshot `json:",omitempty"`

	Tuns []tun.Snapshot `json:",omitempty"`

	// Cards has pointers to plain.Snapshot, or to the Snapshot of package lanai in endpoint or vmmc. The
	// type is any, so that a program can decode a dump.
	Cards []any `json:",omitempty"`
}

// Dump takes a snapshot of everything that c watches.
func (c *Collector) Dump() *Dump { return c.dump(c.nics.list()) }

// dump is Dump with these NICs.
func (c *Collector) dump(nics []*watched[nicSource]) *Dump {
	d := &Dump{Time: time.Now(), PID: os.Getpid()}
	d.NICs = snapshotsOf(d, "NIC", nics, nicSource.Snapshot)
	d.Nodes = snapshots(d, "node", &c.nodes, nodeSource.Snapshot)
	d.Processes = snapshots(d, "vmmc process", &c.processes, processSource.Snapshot)
	d.Worlds = snapshots(d, "split-c process", &c.worlds, worldSource.Snapshot)
	d.Streams = snapshots(d, "host of streams", &c.hosts, streamSource.Snapshot)
	d.Servers = snapshots(d, "RPC server", &c.servers, rpcSource.Snapshot)
	d.Daemons = snapshots(d, "daemon", &c.daemons, daemonSource.Snapshot)
	d.Tuns = snapshots(d, "tun", &c.tuns, tunSource.Snapshot)
	d.Cards = snapshots(d, "card", &c.cards, func(x anyCard) any { return x.state().whole })
	if comm := c.rankComm(); comm != nil {
		s, ok := within(dumpPatience, func() rankState { return rankState{comm.Snapshot(), comm.Pending()} })
		if ok {
			d.Rank, d.Stats = &s.Pending, &s.Stats
		} else {
			d.stuck("rank")
		}
	}
	return d
}

// snapshots returns the snapshots of all watched objects of a kind, and records those that do not
// answer.
func snapshots[T comparable, S any](d *Dump, kind string, w *watching[T], of func(T) S) []S {
	return snapshotsOf(d, kind, w.list(), of)
}

func snapshotsOf[T comparable, S any](d *Dump, kind string, list []*watched[T], of func(T) S) (all []S) {
	for i, x := range list {
		if s, ok := within(dumpPatience, func() S { return of(x.it) }); ok {
			all = append(all, s)
		} else {
			d.stuck(fmt.Sprintf("%s %d", kind, i))
		}
	}
	return all
}

func (d *Dump) stuck(what string) {
	d.Stuck = append(d.Stuck, fmt.Sprintf("%s does not answer: its lock has been held for %v; the goroutines' stacks say by whom", what, dumpPatience))
}

// within returns what f returns, unless that takes longer than patience.
func within[T any](patience time.Duration, f func() T) (result T, ok bool) {
	ch := make(chan T, 1)
	go func() { ch <- f() }()
	select {
	case result = <-ch:
		return result, true
	case <-time.After(patience):
		return result, false
	}
}

// WriteTo writes the dump as text: the rank, nodes, processes of VMMC and of Split-C, hosts of streams, servers of
// remote procedures, daemons of VMMC, IP networks, NICs, and cards. It implements io.WriterTo.
func (d *Dump) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "bobnet: process %d at %s\n", d.PID, d.Time.Format(time.RFC3339Nano))
	for _, line := range d.Stuck {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	if d.Rank != nil {
		b.WriteByte('\n')
		d.Rank.WriteTo(&b) // a buffer accepts everything
	}
	n := writeAll(&b, d.Nodes) + writeAll(&b, d.Processes) + writeAll(&b, d.Worlds) + writeAll(&b, d.Streams) + writeAll(&b, d.Servers) +
		writeAll(&b, d.Daemons) + writeAll(&b, d.Tuns) + writeAll(&b, d.NICs) + len(d.Cards)
	for _, card := range d.Cards {
		if card, ok := card.(io.WriterTo); ok { // not in a dump that was decoded
			b.WriteByte('\n')
			card.WriteTo(&b)
		}
	}
	if n+len(d.Stuck) == 0 && d.Rank == nil {
		b.WriteString("no NIC is open and no rank has joined a job\n")
	}
	return b.WriteTo(w)
}

// writeAll writes snapshots as text, and returns their number.
func writeAll[S io.WriterTo](b *bytes.Buffer, all []S) int {
	for _, s := range all {
		b.WriteByte('\n')
		s.WriteTo(b) // a buffer accepts everything
	}
	return len(all)
}

// DumpHandler serves dumps: as text, or with ?format=json as JSON.
func (c *Collector) DumpHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch format := r.URL.Query().Get("format"); format {
		case "", "text":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			c.Dump().WriteTo(w) // if it fails, the client has gone
		case "json":
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			enc.Encode(c.Dump())
		default:
			http.Error(w, fmt.Sprintf("unknown format %q (want text or json)", format), http.StatusBadRequest)
		}
	})
}

// quitAgain is how soon after a dump a second SIGQUIT ends the process.
const quitAgain = 3 * time.Second

// DumpOnQuit writes a dump to w, usually os.Stderr, whenever the process gets SIGQUIT (Ctrl-\ on a
// terminal, kill -QUIT). The process then continues. A second SIGQUIT within three seconds of a
// dump has Go's default effect: it prints the goroutines' stacks and ends the process with exit
// code 2.
//
// Call stop to restore the signal. Several collectors may be active in one process; each dumps the
// objects that it watches.
func (c *Collector) DumpOnQuit(w io.Writer) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGQUIT)
	go func() {
		var last time.Time
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			if !last.IsZero() && time.Since(last) < quitAgain {
				signal.Reset(syscall.SIGQUIT)
				syscall.Kill(os.Getpid(), syscall.SIGQUIT) // cannot fail
				return
			}
			c.Dump().WriteTo(w) // an error cannot be reported anywhere
			fmt.Fprintf(w, "SIGQUIT again within %v: stacks of all goroutines, and exit\n", quitAgain)
			last = time.Now()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
