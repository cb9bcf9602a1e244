package lanai_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// TestLogHandler: the handler of the log of a card's mapper, which speaks within steps of the
// card, may look at the card, and may block: the cards find each other all the same, and Close
// does not wait for it.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(c *lanai.Card){
		"calls":  func(c *lanai.Card) { c.Snapshot() },
		"blocks": func(*lanai.Card) { <-block },
	} {
		t.Run(name, func(t *testing.T) {
			veth := vethtest.New(t, 1500)
			var called sync.Once
			lines, opened := make(chan struct{}), make(chan struct{})
			var cards [2]*lanai.Card
			for side := range cards { // one of them maps, and says so
				with := plain.LiveMapper()
				with.Period = 20 * time.Millisecond
				with.Logger = slog.New(logtest.Handler(func(string) {
					<-opened
					called.Do(func() { close(lines) })
					call(cards[side])
				}))
				err := veth.In(side, func() (err error) {
					cards[side], err = lanai.Open(t.Context(), &lanai.Config{Interface: vethtest.Name, Mapper: with})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cards[side].Close() })
			}
			close(opened)
			within(t, "finding each other", func() {
				for _, c := range cards {
					for c.Snapshot().Mapper.Routes == 0 {
						<-time.After(time.Millisecond)
					}
				}
			})
			within(t, "a line", func() { <-lines })
			within(t, "Close", func() {
				cards[0].Close()
				cards[1].Close()
			})
		})
	}
}

// within fails the test if fn has not returned in a minute.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		fn()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		t.Fatalf("%s: not within a minute", what)
	}
}
