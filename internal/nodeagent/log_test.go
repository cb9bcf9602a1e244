package nodeagent

import (
	"log/slog"
	"testing"

	"github.com/bobnet-go/bobnet/internal/logtest"
)

// TestLogHandlerBlocks: a handler of log lines that blocks keeps nobody from an answer.
func TestLogHandlerBlocks(t *testing.T) {
	lines, block := make(chan struct{}, 1), make(chan struct{})
	path := logging(t, slog.New(logtest.Handler(func(string) {
		lines <- struct{}{}
		<-block
	})))
	t.Cleanup(func() { close(block) }) // before the server is closed
	answers(t, path)
	<-lines
	for range 3 {
		answers(t, path)
	}
}
