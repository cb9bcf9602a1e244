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

// answerPatience is how long a program may take to answer, and dumpPatience for a dump, which
// waits for what is stuck in the program.
const (
	answerPatience = time.Second
	dumpPatience   = 6 * time.Second
)

// ErrSilent is wrapped by Ask's errors for a program that does not answer in time.
var ErrSilent = errors.New("node agent: the program does not answer")

// Program is a link of a program that has sockets of the agent's, or a program that tells how it
// is as a whole.
type Program struct {
	Name      string // of the program, as the kernel has it
	PID       int    // 0 in another pid namespace
	UID       uint32
	Tells     bool // the program as a whole: it has no interface and no ports here
	Number    int  // among those that tell of the same process, from 1
	Interface string
	Ports     transport.PortRange

	conn    *net.UnixConn
	asking  sync.Mutex // one question at a time
	mu      sync.Mutex
	asked   string // what an answer is due to; "" if none is
	waiting bool   // somebody waits for it
	answers chan []byte
	ended   chan struct{}
}

func newProgram(conn *net.UnixConn, cred *unix.Ucred) *Program {
	return &Program{Name: nameOf(int(cred.Pid)), PID: int(cred.Pid), UID: cred.Uid, Number: 1,
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

// ID returns the number of the process. If several tell of one process, or of processes whose
// number the agent cannot see, all but the first have "#2", "#3" and so on behind it.
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

// compare has links of a process stand behind what the process tells.
func compare(a, b *Program) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Ports.Lo, b.Ports.Lo), cmp.Compare(a.Number, b.Number))
}

// run takes answers until the connection ends. One that nobody has asked for ends it, as soon as
// it begins.
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

// messagePatience is how long a program may take to send an answer that it has begun.
const messagePatience = 2 * time.Second

// hear takes an answer that has begun to come. It returns false if none is due, or if it is none.
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
	return err == nil && p.take(body)
}

// take takes an answer. It returns false if none is due. One that nobody waits for any more is
// not kept.
func (p *Program) take(body []byte) bool {
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

// Ask asks the program, waits a second, or six for a dump, and returns its answer. While it has
// not answered the question before, it is not asked again.
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
		case body := <-p.answers: // just now
			return body, nil
		default:
		}
	}
	return nil, fmt.Errorf("%w: %v", ErrSilent, p)
}

// question sends a question, unless an answer is due. No answer to another question is left
// after it.
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
