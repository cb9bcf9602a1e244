package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// hostIn opens the card of a rank of a fabric, and has it driven until the test ends.
func hostIn(t *testing.T, l *lab.Lab, f *topology.File, rank int) {
	t.Helper()
	var link transport.Link
	err := l.Exec(rank, func() (err error) {
		m := plain.LiveMapper()
		m.Name = f.Hosts[rank]
		link, err = plain.Open(t.Context(), &plain.OpenConfig{Interface: lab.Interface, Config: plain.Config{Mapper: m}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for link.Wait(transport.Forever) == nil {
			if _, err := link.Recv(make([][]byte, transport.MaxBatch)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		link.Close()
		<-done
	})
}

// mapOf runs bobnet map as rank 0.
func mapOf(t *testing.T, l *lab.Lab, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, append([]string{"map"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	p, err := l.Start(0, cmd)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	return p.Code(), out.String(), errs.String()
}

// TestMapLive: bobnet map, as one host of a running fabric, finds what there is, prints it
// as text, JSON and SVG, and says where it differs from a truth, also when a switch has died.
func TestMapLive(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: each map takes a second")
	}
	needLab(t)
	dir := t.TempDir()
	program := copyProgram(t, dir)
	f, err := readFabric("two")
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(t.Context(), lab.Config{Fabric: f, MTU: 1500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var switches []*lab.Proc
	for i := range l.Switches() {
		p, err := startSwitch(l, f, program, i)
		if err != nil {
			t.Fatal(err)
		}
		switches = append(switches, p)
	}
	for rank := 1; rank < l.Size(); rank++ {
		hostIn(t, l, f, rank)
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(fabricPatience); !done(); {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	var said string
	until("the map does not become the truth", func() bool {
		code, stdout, stderr := mapOf(t, l, program, "--truth", "two")
		said = stdout
		if code != 0 {
			t.Log(stderr) // the hosts may be about to begin
		}
		return code == 0
	})
	if !strings.Contains(said, "# 4 hosts, 2 switches, 6 cables, as h0 sees them; ") {
		t.Errorf("the map is\n%s", said)
	}
	picture := filepath.Join(dir, "map.svg")
	if code, _, stderr := mapOf(t, l, program, "--format", "svg", "-o", picture); code != 0 {
		t.Error(stderr)
	} else if svg, err := os.ReadFile(picture); err != nil || !bytes.HasPrefix(svg, []byte("<svg ")) {
		t.Errorf("the picture begins with %.20q, %v", svg, err)
	}
	var j struct{ Mapper string }
	if code, stdout, stderr := mapOf(t, l, program, "--format", "json"); code != 0 || json.Unmarshal([]byte(stdout), &j) != nil || j.Mapper != "h0" {
		t.Errorf("as JSON: %s%s", stdout, stderr)
	}
	if err := switches[1].Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-switches[1].Done()
	until("the death of a switch is not on the map", func() bool {
		code, _, stderr := mapOf(t, l, program, "--truth", "two")
		return code == 1 && strings.Contains(stderr, "the map differs from the truth:") && strings.Contains(stderr, "host h3 is not on the map")
	})
}

// TestMapNoCable: without another end of the cable bobnet map says so.
func TestMapNoCable(t *testing.T) {
	needLab(t)
	program := copyProgram(t, t.TempDir())
	f, err := topology.ParseFile("host a b\nlink a b\n")
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.New(t.Context(), lab.Config{Fabric: f, MTU: 1500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if code, _, stderr := mapOf(t, l, program, "--limit", "100ms"); code != 1 || !strings.Contains(stderr, "no answer from the other end of the cable on bob0") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
