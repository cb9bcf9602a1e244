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

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/agent"
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

// run takes answers until the connection ends. One that nobody has asked for ends it.
func (p *Program) run() {
	defer close(p.ended)
	for {
		body, fds, err := agent.ReadBytes(p.conn, agent.MaxAnswer)
		agent.CloseAll(fds)
		if err != nil || !p.take(body) {
			return
		}
	}
}

// take takes an answer. It returns false if none is due.
func (p *Program) take(body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == "" {
		return false
	}
	p.asked = ""
	select {
	case <-p.answers: // nobody has waited long enough for it
	default:
	}
	p.answers <- body
	return true
}

// Ask asks the program, waits a second, or six for a dump, and returns its answer. While it has
// not answered the question before, it is not asked again.
func (p *Program) Ask(what string) ([]byte, error) {
	p.asking.Lock()
	defer p.asking.Unlock()
	patience := answerPatience
	if what == agent.Dump {
		patience = dumpPatience
	}
	if !p.question(what) {
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

// question sends a question, unless an answer is due. No answer to another question is left
// after it.
func (p *Program) question(what string) (sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.answers: // a late one
	default:
	}
	if p.asked != "" {
		return false
	}
	p.asked = what
	p.conn.SetWriteDeadline(time.Now().Add(answerPatience))
	if err := agent.Write(p.conn, agent.Question{What: what}); err != nil {
		p.conn.Close()
	}
	return true
}
