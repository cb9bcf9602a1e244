package vmmc_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

// TestLogHandler: a handler of log lines may look at the process, and may block: when the
// panic of a handler of notifications is logged, the next ones are handled all the same, and
// Close does not wait.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(p *vmmc.Process){
		"calls":  func(p *vmmc.Process) { p.Snapshot() },
		"blocks": func(*vmmc.Process) { <-block },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
			check(t, err)
			t.Cleanup(func() { nic.Close() })
			var p *vmmc.Process
			lines := make(chan struct{}, 8)
			p, err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: 1, Job: scopeOf(t), Logger: slog.New(logtest.Handler(func(string) {
				lines <- struct{}{}
				call(p)
			}))})
			check(t, err)
			told := make(chan struct{}, 8)
			_, err = p.Export(make([]byte, 8), 1, vmmc.Everybody, func(vmmc.Notification) {
				told <- struct{}{}
				panic("a handler panics")
			})
			check(t, err)
			q := liveProcess(t, 2)
			i, err := q.Import(ctx, vmmc.Name{Process: 1, ID: 1})
			check(t, err)
			for k := range 3 {
				check(t, q.SendMsgWithNotify(ctx, make([]byte, 8), i.Addr()))
				select {
				case <-told:
				case <-ctx.Done():
					t.Fatalf("notification %d is not handled", k)
				}
			}
			<-lines
			closed := make(chan error, 1)
			go func() { closed <- p.Close() }()
			select {
			case err := <-closed:
				check(t, err)
			case <-ctx.Done():
				t.Fatal("Close has not returned")
			}
		})
	}
}
