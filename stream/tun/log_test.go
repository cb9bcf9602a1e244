package tun_test

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/stream/tun"
)

// TestLogHandlerBlocks: a blocked log handler does not delay packets, and the hosts close without
// waiting for it.
func TestLogHandlerBlocks(t *testing.T) {
	block, blocked := make(chan struct{}), make(chan struct{})
	defer close(block)
	var once sync.Once
	p, hosts := pair(t, 1500, tun.Config{Logger: slog.New(logtest.Handler(func(string) {
		once.Do(func() { close(blocked) })
		<-block
	}))})
	if out, err := run(t, p, 0, "ping", "-c", "2", "-i", "0.02", "-W", "20", "10.9.0.2"); err != nil {
		t.Errorf("ping: %v\n%s", err, out)
	}
	<-blocked
	hosts[0].stop(t)
	hosts[1].stop(t)
}
