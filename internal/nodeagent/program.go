package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// answerPatience is the maximum time for an answer, and dumpPatience that for a dump, which waits for
// locks that the program holds for long.
const (
	answerPatience = time.Second
	dumpPatience   = 6 * time.Second
)

// ErrSilent is wrapped by Ask's errors for a program that does not answer in time.
var ErrSilent = errors.New("node agent: no answer from the program")

// Program is a link of a program with sockets of the agent, or a whole program that reports its
// state.
type Program struct {
	Name      string // of the program, from the kernel
	PID       int    // 0 in another pid namespace
	UID       uint32
	Tells     bool // a whole program, without interface and ports
	Number    int  // among the reports of the same process, from 1
	Interface string
	Ports     transport.PortRange

	conn    *net.UnixConn
	asking  sync.Mutex // one request at a time
	mu      sync.Mutex
	asked   string // the request that has no answer yet; "" for none
	waiting bool   // a caller of Ask waits for the answer
	answers chan []byte
	ended   chan struct{}
}

func newProgram(conn *net.UnixConn, cred *unix.Ucred) *Program {
	return &Program{Name: nameOf(int(cred.Pid)), PID: int(cred.Pid), UID: cred.Uid, Number: 1,
		conn: conn, answers: make(chan []byte, 1), ended: make(chan struct{})}
}

// nameOf returns the name of a process, at most 15 bytes of printable ASCII.
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

// ID returns the process number. If several programs have the same number, or a number that the agent
// cannot see, the suffixes "#2", "#3" and so on distinguish them.
func (p *Program) ID() string {
	if p.Number == 1 {
		return strconv.Itoa(p.PID)
	}
	return fmt.Sprintf("%d#%d", p.PID, p.Number)
}

// String names the program.
func (p *Program) String() string {
	if p.Tells {
		return fmt.Sprintf("%s (process %s of user %d)", p.Name, p.ID(), p.UID)
	}
	return fmt.Sprintf("%s (process %s of user %d, ports %d..%d of %s)", p.Name, p.ID(), p.UID, p.Ports.Lo, p.Ports.Hi, p.Interface)
}

// compare orders programs by process: first the whole program, then its links.
func compare(a, b *Program) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Ports.Lo, b.Ports.Lo), cmp.Compare(a.Number, b.Number))
}

// run receives answers until the connection ends. An answer without a request ends the connection
// as soon as it begins.
func (p *Program) run(room *room) {
	defer close(p.ended)
	for {
		m, fds, err := agent.Begin(p.conn)
		passfd.Close(p.UID, fds...)
		if err != nil || !p.hear(m, room) {
			return
		}
	}
}

// messagePatience is the maximum time for the rest of an answer that has begun.
const messagePatience = 2 * time.Second

// hear receives an answer that has begun. It returns false if no answer is due, or if it is invalid.
func (p *Program) hear(m *agent.Incoming, room *room) bool {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	if asked == "" {
		return false
	}
	room.enter()
	defer room.leave()
	p.conn.SetReadDeadline(time.Now().Add(messagePatience))
	body, err := m.Rest(agent.Question{What: asked}.Limit())
	p.conn.SetReadDeadline(time.Time{})
	return err == nil && p.handleAnswer(body)
}

// handleAnswer handles an answer. It returns false if no answer is due. It discards an answer that no caller
// waits for any more.
func (p *Program) handleAnswer(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == "" {
		return false
	}
	p.asked = ""
	if p.waiting {
		p.waiting = false
		p.answers <- body
	}
	return true
}

// Ask sends a request to the program and returns the answer. It waits for one second, or six for a
// dump. It sends nothing while the previous request is unanswered.
func (p *Program) Ask(what string) ([]byte, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	if p.question(what) {
		patience := answerPatience
		if what == agent.Dump {
			patience = dumpPatience
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case body := <-p.answers:
			return body, nil
		case <-p.ended:
		case <-timer.C:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = false
		select {
		case body := <-p.answers: // arrived at the deadline
			return body, nil
		default:
		}
	}
	return nil, fmt.Errorf("%w: %v", ErrSilent, p)
}

// question sends a request, unless an answer is due. It discards an old answer.
func (p *Program) question(what string) (sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.answers:
	default:
	}
	if p.asked != "" {
		return false
	}
	p.asked, p.waiting = what, true
	p.conn.SetWriteDeadline(time.Now().Add(answerPatience))
	if err := agent.Write(p.conn, agent.Question{What: what}); err != nil {
		passfd.HangUp(p.conn) // run ends
	}
	return true
}
