package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/link/linktest"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/share"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// startCard starts bobnet card at a rank.
func startCard(t *testing.T, l *lab.Lab, program string, rank int) *lab.Proc {
	t.Helper()
	cmd := exec.Command(program, "card", "--iface", lab.Interface)
	cmd.Stderr = os.Stderr
	p, err := l.Start(rank, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// eventually calls done in the namespace of a rank until it returns true.
func eventually(t *testing.T, l *lab.Lab, rank int, what string, done func() (bool, error)) {
	t.Helper()
	var last error
	for end := time.Now().Add(fabricPatience); ; {
		over := false
		if err := l.Exec(rank, func() error { over, last = done(); return nil }); err != nil {
			t.Fatal(err)
		}
		if over {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("rank %d: %s: %v", rank, what, last)
		}
	}
}

// attachCard has this process use the card of a rank.
func attachCard(t *testing.T, l *lab.Lab, rank int) (link *share.Link) {
	t.Helper()
	eventually(t, l, rank, "there is no card", func() (_ bool, err error) {
		link, err = share.Attach(t.Context(), &plain.OpenConfig{Interface: lab.Interface})
		return err == nil, err
	})
	t.Cleanup(func() { link.Close() })
	return link
}

// pass sends a payload from one link to another until it has come.
func pass(t *testing.T, from, to transport.Link, payload string) {
	t.Helper()
	views := make([][]byte, transport.MaxBatch)
	for end := time.Now().Add(fabricPatience); ; {
		f := linktest.NewFrame(from.Info(), to.Info(), to.Info().Ports.Lo, []byte(payload))
		if _, err := from.Send([]transport.Frame{{Head: f}}); err != nil {
			t.Fatal(err)
		}
		if err := to.Wait(to.Now() + int64(10*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for _, l := range []transport.Link{from, to} { // who sends looks, too, and so forgets the rings of a card that has ended
			n, err := l.Recv(views)
			if err != nil {
				t.Fatal(err)
			}
			for _, view := range views[:n] {
				if l == to && string(view[ethertype.HeaderSize:]) == payload {
					return
				}
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%q does not come: %+v, %+v", payload, from.Stats(), to.Stats())
		}
	}
}

// TestKilledCards: of three hosts with a card process each, kill -9 of any, which is the
// mapper's leader once, leaves the others their way to each other. Its program is told, and
// goes on with the next card.
func TestKilledCards(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: the fabric is mapped again and again")
	}
	needLab(t)
	program := copyProgram(t, t.TempDir())
	f, err := topology.ParseFile("host a b c\nswitch s\nlink a s:0\nlink b s:3\nlink c s:5\n")
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(t.Context(), lab.Config{Fabric: f, MTU: 1500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if _, err := startSwitch(l, f, program, 0); err != nil {
		t.Fatal(err)
	}
	var cards [3]*lab.Proc
	var links [3]*share.Link
	for rank := range cards {
		cards[rank] = startCard(t, l, program, rank)
		links[rank] = attachCard(t, l, rank)
	}
	all := func(when string, ranks ...int) {
		t.Helper()
		for _, from := range ranks {
			for _, to := range ranks {
				if from != to {
					pass(t, links[from], links[to], fmt.Sprintf("%s: %d to %d", when, from, to))
				}
			}
		}
	}
	all("at first", 0, 1, 2)
	for rank, card := range cards {
		if err := card.Signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-card.Done()
		all(fmt.Sprintf("without %d", rank), (rank+1)%3, (rank+2)%3)
		eventually(t, l, rank, "the program does not hear of the card's end", func() (bool, error) {
			err := links[rank].Check()
			return errors.Is(err, transport.ErrLinkDown) && errors.Is(err, share.ErrNoCard), err
		})
		cards[rank] = startCard(t, l, program, rank)
		eventually(t, l, rank, "the program does not find the next card", func() (bool, error) {
			err := links[rank].Check()
			return err == nil, err
		})
		all(fmt.Sprintf("after %d has returned", rank), 0, 1, 2)
	}
}
