package mplite_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestLogHandler: a handler of log lines may look at the communicator, and may block: when the
// death of a rank is logged, what waits for that ends all the same, and so does Finalize.
func TestLogHandler(t *testing.T) {
	block := make(chan struct{})
	defer close(block)
	for name, call := range map[string]func(c *mplite.Comm){
		"calls":  func(c *mplite.Comm) { c.Snapshot() },
		"blocks": func(*mplite.Comm) { <-block },
	} {
		t.Run(name, func(t *testing.T) {
			var nics [2]*vipl.NIC
			for rank := range nics {
				var err error
				nics[rank], err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Loopback(81 + rank), Driver: "udp"})
				check(t, err)
				t.Cleanup(func() { nics[rank].Close() })
			}
			joined := make(chan struct{})
			go func() { // who joins, and dies when the other has joined
				if _, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: runOf(t), Rank: 1, Size: 2, NIC: nics[1], Timeout: patience}}); err != nil {
					t.Errorf("rank 1: %v", err)
				}
				<-joined
				nics[1].Close()
			}()
			comm, lines := make(chan *mplite.Comm, 1), make(chan string, 8)
			log := slog.New(logtest.Handler(func(line string) {
				c := <-comm
				comm <- c
				lines <- line
				call(c)
			}))
			ended := make(chan error, 1)
			go func() {
				c, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Job: runOf(t), Rank: 0, Size: 2, NIC: nics[0], Timeout: patience, Logger: log}})
				close(joined)
				if err != nil {
					ended <- err
					return
				}
				comm <- c
				if _, err := c.Recv(bg, nil, 1, 0); !errors.Is(err, mplite.ErrRankFailed) {
					ended <- fmt.Errorf("receive from the dead: %w", err)
					return
				}
				if line := <-lines; line != "rank failed" {
					ended <- fmt.Errorf("the line is %q", line)
					return
				}
				c.Snapshot()
				if err := c.Finalize(bg); !errors.Is(err, mplite.ErrRankFailed) {
					ended <- fmt.Errorf("finalize: %w", err)
					return
				}
				ended <- nil
			}()
			select {
			case err := <-ended:
				check(t, err)
			case <-time.After(time.Minute):
				t.Fatal("the rank is stuck")
			}
		})
	}
}
