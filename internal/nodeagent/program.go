package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/agent"
	"golang.org/x/sys/unix"
)

// answerPatience is how long a program may take to answer.
const answerPatience = time.Second

// ErrSilent is wrapped by Ask's errors for a program that does not answer in time.
var ErrSilent = errors.New("node agent: the program does not answer")

// Program is a link of a program that has sockets of the agent's.
type Program struct {
	Name      string // of the program, as the kernel has it
	PID       int    // 0 in another pid namespace
	UID       uint32
	Interface string
	Ports     transport.PortRange

	conn    *net.UnixConn
	asking  sync.Mutex // one question at a time
	mu      sync.Mutex
	waiting bool // an answer is due
	answers chan []byte
	ended   chan struct{}
}

func newProgram(conn *net.UnixConn, cred *unix.Ucred, g *agent.Grant) *Program {
	return &Program{Name: nameOf(int(cred.Pid)), PID: int(cred.Pid), UID: cred.Uid, Interface: g.Interface.Name, Ports: g.Ports,
		conn: conn, answers: make(chan []byte, 1), ended: make(chan struct{})}
}

// nameOf returns the name of a process, of at most 15 octets, in printable ASCII.
func nameOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.TrimSuffix(string(text), "\n"))
}

// String names the program.
func (p *Program) String() string {
	return fmt.Sprintf("%s (process %d of user %d, ports %d..%d of %s)", p.Name, p.PID, p.UID, p.Ports.Lo, p.Ports.Hi, p.Interface)
}

func compare(a, b *Program) int {
	return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Ports.Lo, b.Ports.Lo), cmp.Compare(a.PID, b.PID))
}

// run takes answers until the connection ends. One that nobody has asked for ends it.
func (p *Program) run() {
	defer close(p.ended)
	for {
		body, fds, err := agent.ReadBytes(p.conn, agent.MaxAnswer)
		agent.CloseAll(fds)
		if err != nil {
			return
		}
		p.mu.Lock()
		due := p.waiting
		p.waiting = false
		p.mu.Unlock()
		if !due {
			return
		}
		select {
		case <-p.answers: // nobody has waited long enough for it
		default:
		}
		p.answers <- body
	}
}

// Ask asks the program, and returns its answer. While it has not answered the question
// before, it is not asked again.
func (p *Program) Ask(what string) ([]byte, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	p.mu.Lock()
	silent := p.waiting
	if !silent {
		select {
		case <-p.answers: // a late one
		default:
		}
		p.waiting = true
		p.conn.SetWriteDeadline(time.Now().Add(answerPatience))
		if err := agent.Write(p.conn, agent.Question{What: what}); err != nil {
			p.conn.Close()
		}
	}
	p.mu.Unlock()
	patience := answerPatience
	if silent {
		patience = 0
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case body := <-p.answers:
		return body, nil
	case <-p.ended:
	case <-timer.C:
	}
	return nil, fmt.Errorf("%w: %v", ErrSilent, p)
}
