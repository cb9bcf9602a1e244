package vipl_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLogHandlerCalls: a handler of log lines may call what it likes. Each line of a
// connection that a message too long ends looks at the NIC.
func TestLogHandlerCalls(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nics [2]*vipl.NIC
	var mu sync.Mutex
	var lines []string
	opened := make(chan struct{})
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Logger: slog.New(logtest.Handler(func(line string) {
			<-opened
			nics[side].Snapshot()
			nics[side].Poll()
			mu.Lock()
			lines = append(lines, line)
			mu.Unlock()
		}))})
	}
	close(opened)
	a, b := join(t, nics, nil)
	within(t, "the end", func() error {
		in, err := newBuffers(nics[1], 1, 10)
		if err != nil {
			return err
		}
		out, err := newBuffers(nics[0], 1, 100)
		if err != nil {
			return err
		}
		if err := b.PostRecv(&in.descs[0]); err != nil {
			return err
		}
		if err := a.PostSend(&out.descs[0]); err != nil {
			return err
		}
		b.RecvWait(bg)
		a.SendWait(bg)
		for _, n := range nics {
			if err := n.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"NIC open", "connected", "connection ended", "NIC closed"} {
		if !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("%q is missing in %q", want, lines)
		}
	}
}

// TestLogHandlerBlocks: a handler that never returns, as one whose stderr nobody reads,
// stops neither messages nor Close, and what it does not take is counted.
func TestLogHandlerBlocks(t *testing.T) {
	block := make(chan struct{})
	p := vethtest.New(t, 1500)
	var nics [2]*vipl.NIC
	for side := range nics {
		nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Logger: slog.New(logtest.Handler(func(string) { <-block }))})
	}
	defer close(block)
	within(t, "traffic", func() error {
		for i := range 400 { // two lines each
			v, err := nics[0].CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			w, err := nics[1].CreateVI(nil, nil, nil)
			if err != nil {
				return err
			}
			if err := meetVIs(v, w); err != nil {
				return err
			}
			if i == 399 {
				if err := oneByOne(v, w, 10, 100); err != nil {
					return err
				}
			}
			v.Close()
			w.Close()
		}
		return nil
	})
	if s := nics[0].Snapshot(); s.LogsLost == 0 {
		t.Error("no line was lost")
	}
	within(t, "Close", func() error { nics[0].Close(); return nics[1].Close() })
}

// meetVIs connects two VIs.
func meetVIs(v, w *vipl.VI) error {
	l, err := v.NIC().Listen(0)
	if err != nil {
		return err
	}
	defer l.Close()
	return all(func() error {
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		return r.Accept(bg, v)
	}, func() error { return w.Connect(bg, l.Addr(), nil) })
}
