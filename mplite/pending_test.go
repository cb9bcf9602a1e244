package mplite_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/logtest"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestPending: a rank with a receive posted, a large send announced and a
// message that nobody has received tells so, and nothing when all is done.
func TestPending(t *testing.T) {
	const large = 1 << 20
	j := newJob(3, sim.Options{Seed: 1}, mplite.Config{EagerSize: 1024, Credits: 8})
	j.start(func(c *mplite.Comm) error {
		rest := func() error { return j.Sleep(10 * time.Millisecond) }
		switch c.Rank() {
		case 1:
			if err := rest(); err != nil {
				return err
			}
			return c.Send(bg, content(100, 1), 0, 7)
		case 2:
			if err := c.Send(bg, content(50, 2), 0, 3); err != nil {
				return err
			}
			if err := rest(); err != nil {
				return err
			}
			_, err := c.Recv(bg, make([]byte, large), 0, 5)
			return err
		}
		recv, err := c.Irecv(make([]byte, 100), 1, 7)
		if err != nil {
			return err
		}
		send, err := c.Isend(make([]byte, large), 2, 5)
		if err != nil {
			return err
		}
		if _, err := c.Probe(bg, 2, 3); err != nil {
			return err
		}
		if err := openOps(c.Pending()); err != nil {
			return err
		}
		if _, err := c.Recv(bg, make([]byte, 50), 2, 3); err != nil {
			return err
		}
		if err := mplite.Waitall(bg, []mplite.Request{recv, send}, nil); err != nil {
			return err
		}
		ours := func(m mplite.Message) bool { return !m.Collective } // the others may be in Finalize already
		if p := c.Pending(); p.NumReceives+p.NumSends != 0 || slices.ContainsFunc(p.Unexpected, ours) {
			return fmt.Errorf("all is done, and yet %+v is pending", p)
		}
		return nil
	})
	check(t, j.run())
}

// openOps checks what rank 0 of TestPending waits for.
func openOps(p mplite.Pending) error {
	recv := mplite.Operation{Rank: 1, Tag: 7, Size: 100, State: "for a message"}
	send := mplite.Operation{Rank: 2, Tag: 5, Size: 1 << 20, State: "announced, for its receive"}
	message := mplite.Message{Rank: 2, Tag: 3, Size: 50}
	if !slices.Equal(p.Receives, []mplite.Operation{recv}) || !slices.Equal(p.Sends, []mplite.Operation{send}) ||
		!slices.Equal(p.Unexpected, []mplite.Message{message}) || p.NumReceives != 1 || p.NumSends != 1 || p.NumUnexpected != 1 {
		return fmt.Errorf("pending is %+v, want %+v, %+v and %+v", p, recv, send, message)
	}
	return nil
}

// TestPendingDead: the dead are named, with the reason.
func TestPendingDead(t *testing.T) {
	check(t, killedJob(1, nil, func(c *mplite.Comm) error {
		_, err := c.Recv(bg, make([]byte, 10), victim, 0)
		if err == nil {
			return fmt.Errorf("a message came from the dead")
		}
		for _, p := range c.Pending().Peers {
			if p.Rank == victim && p.State == "dead" && p.Err != "" {
				return nil
			}
		}
		return fmt.Errorf("rank %d is not among the dead: %+v", victim, c.Pending().Peers)
	}))
}

// TestPendingText pins the layout.
func TestPendingText(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    mplite.Pending
		want string
	}{
		{"nothing", mplite.Pending{Job: "heat", Rank: 1, Size: 4}, `rank 1 of 4 in job "heat"  computes: no goroutine waits
  0 receives and 0 sends not finished, 0 messages that no receive has taken
`},
		{"ended", mplite.Pending{Job: "heat", Size: 4, Err: "aborted by rank 3"}, `rank 0 of 4 in job "heat"  ended: aborted by rank 3
  0 receives and 0 sends not finished, 0 messages that no receive has taken
`},
		{"much", mplite.Pending{
			Job: "heat", Rank: 1, Size: 4, Leading: true, NumReceives: 2, NumSends: 1, NumUnexpected: 300,
			Receives: []mplite.Operation{
				{Rank: 2, Tag: 5, Size: 1 << 20, State: "to be written to"},
				{Rank: mplite.AnySource, Tag: mplite.AnyTag, Communicator: 2, Collective: true, Size: 8, State: "for a message"},
			},
			Sends:      []mplite.Operation{{Rank: 3, Tag: 5, Size: 1 << 20, Moved: 4096, State: "to be written"}},
			Unexpected: []mplite.Message{{Rank: 2, Tag: 3, Size: 50}, {Rank: 3, Tag: 9, Size: 1 << 20, Announced: true, Matched: true}},
			Peers:      []mplite.Peer{{Rank: 2, State: "live", VI: 1025, Control: 8, Queued: 3, Busy: 1, Writes: 2, Held: 4}, {Rank: 3, State: "dead", VI: 1026, Err: "silent for 5s"}},
		}, `rank 1 of 4 in job "heat"  waits for the network, 0 more goroutines with it
  2 receives and 1 sends not finished, 300 messages that no receive has taken

  OPERATION  RANK  TAG  COMMUNICATOR  BYTES    MOVED  WAITS
  receive    2     5    0             1048576  0      to be written to
  receive    any   any  2 collective  8        0      for a message
  send       3     5    0             1048576  4096   to be written

  UNEXPECTED             RANK  TAG  COMMUNICATOR  BYTES
  message                2     3    0             50
  announcement, matched  3     9    0             1048576
  and 298 more

  WITH RANK  STATE  VI    CREDITS  CONTROL  QUEUED  BUSY  WRITES  HELD  WHY
  2          live   1025  0        8        3       1     2       4     -
  3          dead   1026  0        0        0       0     0       0     silent for 5s
`},
	} {
		var b strings.Builder
		if n, err := tt.p.WriteTo(&b); err != nil || n != int64(b.Len()) {
			t.Errorf("%s: WriteTo returned %d, %v after %d bytes", tt.name, n, err, b.Len())
		}
		if b.String() != tt.want {
			t.Errorf("%s: the text is\n%s\nwant\n%s", tt.name, &b, tt.want)
		}
	}
}

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
