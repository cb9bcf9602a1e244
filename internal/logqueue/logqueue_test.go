package logqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logqueue"
)

// gated is a handler that blocks at each line until it may go on, or for good.
type gated struct {
	slog.Handler
	gate chan struct{}
}

func (g gated) Handle(ctx context.Context, r slog.Record) error {
	<-g.gate
	return g.Handler.Handle(ctx, r)
}

// locked is a buffer that goroutines share.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestOrder: lines come out in order, with their attributes and groups, and levels that
// the handler does not want do not.
func TestOrder(t *testing.T) {
	var out locked
	q := logqueue.New(slog.New(slog.NewTextHandler(&out, nil)))
	l := q.Logger().With("a", 1).WithGroup("g")
	for i := range 100 {
		l.Debug("unwanted")
		l.Info("line", "i", i)
	}
	q.Flush(time.Minute)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 100 || q.Lost() != 0 {
		t.Fatalf("%d lines, %d lost", len(lines), q.Lost())
	}
	for i, line := range lines {
		if !strings.Contains(line, fmt.Sprintf("msg=line a=1 g.i=%d", i)) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if again := logqueue.New(q.Logger()); again != q {
		t.Error("a second queue before the first")
	}
}

// TestBlocked: a handler that blocks holds up nobody; what does not fit is counted, and
// said when it is back.
func TestBlocked(t *testing.T) {
	var out locked
	gate := make(chan struct{})
	q := logqueue.New(slog.New(gated{slog.NewTextHandler(&out, nil), gate}))
	for range 1000 {
		q.Logger().Warn("line")
	}
	q.Flush(time.Nanosecond)
	lost := q.Lost()
	if lost < 700 || lost > 744 {
		t.Errorf("%d lines lost", lost)
	}
	close(gate)
	q.Flush(time.Minute)
	if got := strings.Count(out.String(), "msg=line"); got != 1000-int(lost) || !strings.Contains(out.String(), fmt.Sprintf("lines=%d", lost)) {
		t.Errorf("%d lines, %d lost:\n%.300s", got, lost, out.String())
	}
}

// ending is a handler that ends its goroutine, as t.Fatal does.
type ending struct{ slog.Handler }

func (e ending) Handle(ctx context.Context, r slog.Record) error {
	_ = e.Handler.Handle(ctx, r)
	runtime.Goexit()
	return nil
}

// TestGoexit: a handler that ends the goroutine does not end the log.
func TestGoexit(t *testing.T) {
	var out locked
	q := logqueue.New(slog.New(ending{slog.NewTextHandler(&out, nil)}))
	for range 10 {
		q.Logger().Warn("line")
	}
	q.Flush(time.Minute)
	if got := strings.Count(out.String(), "msg=line"); got != 10 {
		t.Errorf("%d lines", got)
	}
}

// TestNone: without a logger nothing happens.
func TestNone(t *testing.T) {
	q := logqueue.New(nil)
	q.Logger().Error("line")
	q.Flush(time.Minute)
	if q.Lost() != 0 {
		t.Error(q.Lost())
	}
}

// TestMemory: a queue takes memory for the lines that wait, not for as many as may wait, because each
// NIC has one, and most log a line or two.
func TestMemory(t *testing.T) {
	const queues, most = 100, 20 << 10 // bytes each; a ring of 256 lines has 80 KiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range queues {
		q := logqueue.New(slog.New(slog.DiscardHandler))
		q.Logger().Info("line")
		q.Flush(time.Minute)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / queues; each > most {
		t.Errorf("a queue of one line allocates %d bytes, want at most %d", each, most)
	}
}
