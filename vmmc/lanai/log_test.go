package lanai_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// TestLogHandler: the handler of a host's log, and of its mapper's, which speaks within steps
// of the card, may look at the host, and may block: the hosts find each other all the same, and
// Close does not wait for it.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(h *lanai.Card){
		"calls":  func(h *lanai.Card) { h.Snapshot() },
		"blocks": func(*lanai.Card) { <-block },
	} {
		for _, whose := range []string{"host", "mapper"} {
			t.Run(name+"/"+whose, func(t *testing.T) {
				var called sync.Once
				lines, opened := make(chan struct{}), make(chan struct{})
				var hosts [2]*lanai.Card
				var cfgs [2]lanai.Config
				for side := range cfgs { // one of them maps, and says so
					log := slog.New(logtest.Handler(func(string) {
						<-opened
						called.Do(func() { close(lines) })
						call(hosts[side])
					}))
					cfgs[side] = lanai.Config{Mapper: plain.LiveMapper()}
					cfgs[side].Mapper.Period = 20 * time.Millisecond
					if whose == "mapper" {
						cfgs[side].Mapper.Logger = log
					} else {
						cfgs[side].Logger = log
					}
				}
				openMapped(t, &hosts, cfgs)
				close(opened)
				within(t, "finding each other", func() {
					awaitMapped(hosts[0])
					awaitMapped(hosts[1])
				})
				within(t, "a line", func() { <-lines })
				within(t, "Close", func() {
					hosts[0].Close()
					hosts[1].Close()
				})
			})
		}
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
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
	}
}

// openMapped opens hosts at the ends of a cable between two network namespaces.
func openMapped(t *testing.T, hosts *[2]*lanai.Card, cfgs [2]lanai.Config) {
	t.Helper()
	veth := vethtest.New(t, 1500)
	for side := range hosts {
		err := veth.In(side, func() (err error) {
			cfgs[side].Interface = vethtest.Name
			hosts[side], err = lanai.Open(t.Context(), &cfgs[side])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { hosts[side].Close() })
	}
}

// awaitMapped waits until a host knows the other one.
func awaitMapped(h *lanai.Card) {
	for h.Snapshot().Nodes != 2 {
		<-time.After(time.Millisecond)
	}
}
