package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
)

// fabricPatience bounds each wait for packets.
const fabricPatience = time.Minute

// cardHost is a card without a program in a namespace of a lab: it notes the types of the
// packets that come.
type cardHost struct {
	end   *hardware.End
	types []uint16
	wrong int
}

func (c *cardHost) Room(int) bool { return true }
func (c *cardHost) Sent()         {}

func (c *cardHost) Arrived(packet []byte, whole bool) {
	typ, _, err := hardware.ParsePacket(packet)
	if err != nil || !whole {
		c.wrong++
		return
	}
	c.types = append(c.types, typ)
}

// plugIn opens the card of a rank.
func plugIn(t *testing.T, l *lab.Lab, rank int) *cardHost {
	t.Helper()
	c := &cardHost{}
	err := l.Exec(rank, func() error {
		link, err := ring.Open(t.Context(), &ring.Config{Interface: lab.Interface, EtherType: ethertype.Fabric, Ports: hardware.CablePorts, Long: ring.Off, XDP: ring.Off})
		if err != nil {
			return err
		}
		t.Cleanup(func() { link.Close() })
		c.end, err = hardware.NewEnd(link, c, myrinet.LiveOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// carry sends packets of a type from one card to another until one has come.
func carry(t *testing.T, from, to *cardHost, route myrinet.Route, typ uint16, size int) {
	t.Helper()
	packet := hardware.AppendPacket(nil, route, typ, make([]byte, size))
	end := time.Now().Add(fabricPatience)
	for turn := 0; !slices.Contains(to.types, typ); turn++ {
		if time.Now().After(end) {
			t.Fatalf("no packet of type %d has come: %+v, %+v", typ, from.end.Snapshot(), to.end.Snapshot())
		}
		if turn%50 == 0 {
			from.end.Send(packet)
		}
		for _, c := range []*cardHost{from, to} {
			next, err := c.end.Poll()
			if err != nil {
				t.Fatal(err)
			}
			link := c.end.Link()
			if err := link.Wait(min(next, link.Now()+int64(time.Millisecond))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSwitch: bobnet switch in a namespace carries packets between two others, of one
// frame and of several; a second one on the same ports is refused; after kill -9 and its
// return packets pass again; and without a switch they pass by a cable.
func TestSwitch(t *testing.T) {
	needLab(t)
	program := copyProgram(t, t.TempDir())
	for name, text := range map[string]string{
		"Switch":    "host a b\nswitch s\nlink a s:2\nlink b s:5\n",
		"TwoInARow": "host a b\nswitch s r\nlink a s:2\nlink s:3 r:3\nlink b r:5\n",
		"Cable":     "host a b\nlink a b\n",
	} {
		t.Run(name, func(t *testing.T) {
			f, err := topology.ParseFile(text)
			if err != nil {
				t.Fatal(err)
			}
			l, err := lab.New(t.Context(), lab.Config{Fabric: f, MTU: 1500})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			route := map[string]myrinet.Route{"Switch": {3}, "TwoInARow": {1, 2}, "Cable": {}}[name]
			a, b := plugIn(t, l, 0), plugIn(t, l, 1)
			procs := make([]*lab.Proc, l.Switches())
			for i := range procs {
				if procs[i], err = startSwitch(l, f, program, i); err != nil {
					t.Fatal(err)
				}
			}
			carry(t, a, b, route, 1, 100)
			carry(t, b, a, route.Back(), 2, 60_000)
			if len(procs) > 0 {
				refusedTwice(t, l, program)
			}
			for i, p := range procs {
				if err := p.Signal(unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				<-p.Done()
				if _, err := startSwitch(l, f, program, i); err != nil {
					t.Fatal(err)
				}
				carry(t, a, b, route, uint16(10+i), 60_000)
				carry(t, b, a, route.Back(), uint16(20+i), 100)
			}
			if sessions := a.end.Snapshot().Frames.Sessions; len(procs) > 0 && sessions < 2 {
				t.Errorf("the restart of the switch was not noticed: %d sessions", sessions)
			}
		})
	}
}

// refusedTwice starts a second switch on a port of the first one.
func refusedTwice(t *testing.T, l *lab.Lab, program string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(program, "switch", "--port", l.SwitchPorts(0)[0].Interface)
	cmd.Stderr = &out
	p, err := l.StartSwitch(0, cmd)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if p.Code() != 1 || !strings.Contains(out.String(), "is in use by another switch or card") {
		t.Errorf("a second switch on a port: code %d, %s", p.Code(), &out)
	}
}

// fullPipe returns a pipe that takes no more, as stderr is whose reader has stopped reading.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd := int(w.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// TestPortDeleted: a port whose interface is deleted works again when there is one of its
// name again, though nobody reads the log lines that say so.
func TestPortDeleted(t *testing.T) {
	p := vethtest.New(t, 1500)
	program := copyProgram(t, t.TempDir())
	cmd := exec.Command(program, "switch", "--port", vethtest.Name)
	r, stderr := fullPipe(t)
	defer stderr.Close()
	cmd.Stderr = stderr
	if err := p.In(0, cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(unix.SIGTERM)
		r.Close() // who waits to write is told
		cmd.Wait()
	})
	for round := range 2 {
		c := &cardHost{}
		err := p.In(1, func() error {
			link, err := ring.Open(t.Context(), &ring.Config{EtherType: ethertype.Fabric, Ports: hardware.CablePorts, Long: ring.Off, XDP: ring.Off})
			if err != nil {
				return err
			}
			c.end, err = hardware.NewEnd(link, c, myrinet.LiveOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		carry(t, c, c, myrinet.Route{0}, 1, 5000) // to the switch and back
		c.end.Link().Close()
		if round == 0 {
			if err := errors.Join(p.Delete(), p.Join(1500)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
