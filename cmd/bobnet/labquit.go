package main

import (
	"log/slog"
	"os"
	"os/signal"

	"github.com/bobnet-go/bobnet/internal/lab"
	"golang.org/x/sys/unix"
)

// passQuit passes SIGQUIT on to the ranks of a lab, which print what they wait
// for, until done is called. The ranks are in sessions of their own, so that a
// terminal's Ctrl-\ reaches only us.
func passQuit(l *lab.Lab) (done func()) {
	signals, quit := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGQUIT)
	go func() {
		for {
			select {
			case <-signals:
				if err := l.Signal(unix.SIGQUIT); err != nil {
					slog.Warn("passing SIGQUIT on", "err", err)
				}
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
	}
}
