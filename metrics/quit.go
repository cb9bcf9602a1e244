package metrics

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// quitAgain is how soon after a dump a second SIGQUIT ends the process.
const quitAgain = 3 * time.Second

// DumpOnQuit writes a dump to w, usually os.Stderr, whenever the process gets
// SIGQUIT (Ctrl-\ on a terminal, kill -QUIT), and lets it go on. A second
// SIGQUIT within three seconds of a dump does what Go does without a handler:
// it prints the goroutines' stacks and ends the process with exit code 2.
//
// Call stop to give the signal back. Several collectors may be at work in one
// process; each dumps what it watches.
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
			c.Dump().WriteTo(w) // there is nobody else to tell
			fmt.Fprintf(w, "SIGQUIT again within %v: stacks of all goroutines, and exit\n", quitAgain)
			last = time.Now()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
