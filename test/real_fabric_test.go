package test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/need"
)

// killFabric has three pairs of hosts: a and b at one switch, c and d at another one, e and f
// at both. The address of a is the lowest, so that it maps for all.
const killFabric = `host a b c d e f
switch s t
link a s:0
link b s:1
link c t:0
link d t:1
link e s:2
link f t:2
link s:6 t:6
`

// fabricLab is a lab of switches and hosts, which run real programs.
type fabricLab struct {
	*lab.Lab
	t       *testing.T
	f       *topology.File
	program string
}

// startSwitch starts a switch, and starts it again after it was killed.
func (l *fabricLab) startSwitch(i int) *lab.Proc {
	l.t.Helper()
	cmd := exec.Command(l.program, "switch", "--name", l.f.Switches[i])
	for _, p := range l.SwitchPorts(i) {
		cmd.Args = append(cmd.Args, "--port", p.Interface)
	}
	p, err := l.StartSwitch(i, cmd)
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *fabricLab) host(rank int, args ...string) *player {
	l.t.Helper()
	return playOne(l.t, l.Lab, rank, &exec.Cmd{Path: l.program, Args: append([]string{"bobnet"}, args...)}, "BOBNET_DRIVER=myrinet")
}

// listen starts what answers.
func (l *fabricLab) listen(rank int) *player { return l.host(rank, "ping", "--listen") }

// ping starts what asks the next host again and again.
func (l *fabricLab) ping(rank int) *player {
	return l.host(rank, "ping", "--interval", "10ms", "-W", "200ms", l.MAC(rank+1).String())
}

// answers waits for so many answers that come from now on.
func answers(t *testing.T, p *player, n int) {
	t.Helper()
	p.lines.skip()
	for end := time.Now().Add(2 * patience); n > 0; {
		if strings.Contains(p.line(t), "bytes from") {
			n--
		} else if time.Now().After(end) {
			t.Fatalf("rank %d gets no answers: %s", p.Rank(), &p.stderr)
		}
	}
}

// TestFabricKilled: kill -9 of a switch, of the host that maps, and of another host, each
// of which has a card, while programs talk through live switches. Who does not need what
// was killed goes on, the others resume when it is there again, and nothing is left. The short
// form kills the switch only: mappers wait for seconds before they believe in a host's death.
func TestFabricKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes some seconds")
	}
	f, err := topology.ParseFile(killFabric)
	if err != nil {
		t.Fatal(err)
	}
	l := &fabricLab{Lab: newLab(t, lab.Config{Fabric: f, MTU: 1500}), t: t, f: f, program: filepath.Join(commands(t), "bobnet")}
	switches := []*lab.Proc{l.startSwitch(0), l.startSwitch(1)}
	const a, b, c, d, e = 0, 1, 2, 3, 4
	hosts := make([]*player, l.Size())
	for _, rank := range []int{b, d, e + 1} {
		hosts[rank] = l.listen(rank)
	}
	for _, rank := range []int{a, c, e} {
		hosts[rank] = l.ping(rank)
	}
	all := func() {
		t.Helper()
		for _, rank := range []int{a, c, e} {
			answers(t, hosts[rank], 3)
		}
	}
	all()
	t.Log("a switch")
	kill(t, switches[1])
	answers(t, hosts[a], 20)
	switches[1] = l.startSwitch(1)
	all()
	if need.Full() {
		t.Log("the host that maps, with its card")
		kill(t, hosts[a].Proc)
		answers(t, hosts[c], 20)
		answers(t, hosts[e], 20)
		hosts[a] = l.ping(a)
		all()
		t.Log("a host that answers")
		kill(t, hosts[d].Proc)
		answers(t, hosts[a], 20)
		answers(t, hosts[e], 20)
		hosts[d] = l.listen(d)
		all()
	}
	for _, p := range hosts {
		kill(t, p.Proc)
	}
	noSockets(t, l.Lab)
}

// TestCardKilled: several programs use one card (bobnet card). kill -9 of one of them harms no
// other; kill -9 of the card's process is told to them, and with the next one they go on, and
// nothing is left.
func TestCardKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: deaths are believed after seconds")
	}
	f, err := topology.ParseFile("host a b\nlink a b\n")
	if err != nil {
		t.Fatal(err)
	}
	l := &fabricLab{Lab: newLab(t, lab.Config{Fabric: f, MTU: 1500}), t: t, f: f, program: filepath.Join(commands(t), "bobnet")}
	card := func(rank int) *player {
		p := l.host(rank, "card")
		if line := p.line(t); !strings.Contains(line, l.MAC(rank).String()) {
			t.Fatalf("the card says %q", line)
		}
		return p
	}
	here, there := card(0), card(1)
	answerer := l.listen(1)
	first, second := l.ping(0), l.ping(0)
	answers(t, first, 3)
	answers(t, second, 3)
	t.Log("a program")
	kill(t, first.Proc)
	answers(t, second, 20)
	first = l.ping(0)
	answers(t, first, 3)
	t.Log("the card's process")
	kill(t, here.Proc)
	here = card(0)
	answers(t, first, 3)
	answers(t, second, 3)
	t.Log("the other card's process")
	kill(t, there.Proc)
	there = card(1)
	answers(t, first, 3)
	answers(t, second, 3)
	for _, p := range []*player{here, there, answerer, first, second} {
		kill(t, p.Proc)
	}
	noSockets(t, l.Lab)
}
