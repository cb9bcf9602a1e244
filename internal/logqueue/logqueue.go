// Package logqueue passes log lines to a slog.Handler on a separate goroutine, so that code that
// holds locks can log. The handler may call back, because it runs without these locks. If it
// blocks, for example because nothing reads stderr, only log lines are delayed.
package logqueue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/fifo"
)

// linesMax is the maximum number of lines that wait for a busy or blocked handler.
const linesMax = 256

// Queue holds the lines that wait for a logger's handler. They are handled one at a time, in order.
// If 256 lines wait, further lines are dropped and counted, and a line reports their number when
// the handler continues. The goroutine that calls the handler exists only while lines wait.
// Goroutines may share a Queue.
type Queue struct {
	logger *slog.Logger

	mu    sync.Mutex
	lines fifo.Queue[line]
	lost  uint64
	told  uint64        // how many of the lost lines have been reported
	idle  chan struct{} // closed when all lines have been handled; nil while the goroutine does not run
}

// line is a log record and its handler.
type line struct {
	to     slog.Handler
	record slog.Record
}

// New returns the queue in front of the handler of l; nil means that of slog.Default(). If l
// already has a queue, New returns it.
func New(l *slog.Logger) *Queue {
	if l == nil {
		l = slog.Default()
	}
	if h, ok := l.Handler().(*handler); ok {
		return h.q
	}
	q := new(Queue)
	q.logger = slog.New(&handler{q, l.Handler()})
	return q
}

// Logger returns the logger whose lines go through the queue. Its methods never block and never
// call the handler. The handler's Enabled is also called on the queue's goroutine.
func (q *Queue) Logger() *slog.Logger { return q.logger }

// Lost returns how many lines were dropped because the handler was blocked.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Flush waits until all lines so far have been handled, at most for atMost.
func (q *Queue) Flush(atMost time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

func (q *Queue) push(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines.Len() == linesMax {
		q.lost++
		return
	}
	q.lines.Push(l)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run(l.to)
	}
}

// run passes the lines to their handlers. If a handler ends the goroutine by runtime.Goexit,
// another goroutine handles the later lines.
func (q *Queue) run(last slog.Handler) {
	over := false
	defer func() {
		if !over {
			go q.run(last)
		}
	}()
	for {
		l, ok := q.pop(last)
		if !ok {
			over = true
			return
		}
		last = l.to
		if ctx := context.Background(); last.Enabled(ctx, l.record.Level) {
			_ = last.Handle(ctx, l.record) // there is nowhere to report an error
		}
	}
}

// pop removes and returns the oldest line. If there is none, but lines were dropped since the last
// report, it returns a line for the handler last that reports their number. Otherwise it returns
// false.
func (q *Queue) pop(last slog.Handler) (l line, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.lines.Len() > 0:
		l = q.lines.Pop()
	case q.lost > q.told:
		l = line{last, slog.NewRecord(time.Now(), slog.LevelWarn, "log lines were lost: the handler was blocked", 0)}
		l.record.Add("lines", q.lost-q.told)
		q.told = q.lost
	default:
		close(q.idle)
		q.idle = nil
		return line{}, false
	}
	return l, true
}

// handler puts lines for another handler into a queue.
type handler struct {
	q  *Queue
	to slog.Handler
}

// Enabled implements slog.Handler. The queue asks the other handler when it handles the line.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	h.q.push(line{h.to, r.Clone()})
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.q, h.to.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.q, h.to.WithGroup(name)}
}
