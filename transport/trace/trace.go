// Package trace wraps a link and writes a line for every frame that passes:
//
//	0.000000 bob0 tx 02:00:00:00:00:0a/1024 > 02:00:00:00:00:0b/1024 data last seq 7 ...
//	0.000009 bob0 rx 02:00:00:00:00:0b/1024 > 02:00:00:00:00:0a/1024 ack ack 8
//
// The time is in seconds of the link's clock since New. The rest of the line describes the frame, in the
// format of framing.Dump. Long frames (transport.LongLink) pass like all others. To trace the frames on the
// wire, wrap trace in fault. To trace the frames before faults, wrap fault in trace.
package trace

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/link/optional"
	"github.com/bobnet-go/bobnet/internal/link/wrap"
	"github.com/bobnet-go/bobnet/transport"
)

// traced is a link that writes a line for each frame that passes.
type traced struct {
	base
	name string
	zero int64 // of the link's clock, when New was called

	mu      sync.Mutex
	w       io.Writer // nil after an error
	line    []byte
	scratch []byte
}

type base = wrap.Base

var (
	_ transport.LongLink = (*traced)(nil)
	_ transport.Checker  = (*traced)(nil)
	_ optional.Parking   = (*traced)(nil)
)

// New returns a link that forwards everything to link and writes one line for each frame to w, with
// one Write each. w needs to be safe for concurrent use only if others write to it, too. An error
// of w ends the trace, but not the link. The caller must not use link any more; Close closes it,
// too. Goroutines may share the link as documented at transport.Link. It allocates.
func New(link transport.Link, w io.Writer) transport.Link {
	return &traced{base: wrap.New(link, "trace"), name: link.Info().Interface, zero: link.Now(), w: w}
}

// Send implements transport.Link. It writes the lines of the accepted frames.
func (l *traced) Send(frames []transport.Frame) (n int, err error) {
	now := l.Now()
	n, err = l.Link.Send(frames)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range frames[:n] {
		l.scratch = frames[i].AppendTo(l.scratch[:0])
		l.write(now, "tx", l.scratch)
	}
	return n, err
}

// Recv implements transport.Link.
func (l *traced) Recv(views [][]byte) (n int, err error) {
	n, err = l.Link.Recv(views)
	last := wrap.Long(&l.base).See(views[:n])
	if n == 0 {
		return n, err
	}
	now := l.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range views[:n-1] {
		l.write(now, "rx", v)
	}
	l.write(now, "rx", last)
	return n, err
}

// write writes the line of one frame. mu is held.
func (l *traced) write(now int64, dir string, frame []byte) {
	if l.w == nil {
		return
	}
	l.line = fmt.Appendf(l.line[:0], "%10.6f %s %s %s\n",
		time.Duration(now-l.zero).Seconds(), l.name, dir, framing.Dump(frame))
	if _, err := l.w.Write(l.line); err != nil {
		l.w = nil
	}
}
