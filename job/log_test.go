package job_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLogHandlerBlocks: a handler that blocks when it is told whom Join waits for keeps the
// ranks from nothing.
func TestLogHandlerBlocks(t *testing.T) {
	lines, block := make(chan struct{}, 8), make(chan struct{})
	defer close(block)
	w := newWorld(2, sim.Options{Seed: 1})
	w.cfg.Logger = slog.New(logtest.Handler(func(string) {
		lines <- struct{}{}
		<-block
	}))
	for rank := range 2 {
		w.host("rank", time.Duration(rank)*5*time.Second, func(nic *vipl.NIC) error {
			m, err := w.join(bg, nic, rank)
			if err != nil {
				return err
			}
			return m.Leave(bg)
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- w.run() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the ranks are stuck")
	}
	<-lines
}
