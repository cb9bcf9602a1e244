package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/pmi"
)

// Protocol is the version of what head and nodes say to each other.
const Protocol = 3

// message is one line between head and node: one of its fields is set.
type message struct {
	Hello   *Inventory    `json:",omitempty"` // of a node, first
	Start   *start        `json:",omitempty"` // to a node
	Release *fence        `json:",omitempty"` // to a node: the barrier ends
	Beat    time.Duration `json:",omitempty"` // to a node: say that often that it is there
	Signal  int           `json:",omitempty"` // to a node, for all its ranks
	Alive   bool          `json:",omitempty"` // of a node: it is there
	Line    *line         `json:",omitempty"` // of a node: output of a rank
	Waits   bool          `json:",omitempty"` // of a node: one of its ranks is in a barrier
	Fence   *fence        `json:",omitempty"` // of a node: all its ranks are
	Abort   *ending       `json:",omitempty"` // of a node: a rank ends the job
	Exit    *ending       `json:",omitempty"` // of a node: a rank has ended

	Open    bool              `json:",omitempty"` // to a node: open a NIC, to try paths
	End     *doctor.EndFacts  `json:",omitempty"` // of a node: it has
	Reach   []doctor.EndFacts `json:",omitempty"` // to a node: the NICs of all nodes, to which it is to send
	Reached *reached          `json:",omitempty"` // of a node: what came of that
}

// start is what a node is to do.
type start struct {
	Job     string
	Size    int
	Ranks   []int // of this node
	Mapping string
	Dir     string
	Argv    []string
	Env     []string // beside the node's own environment
	Bind    bool     `json:",omitempty"` // each rank to a processor of its own
}

type fence struct{ Puts []pmi.Word }

type line struct {
	Rank int
	Err  bool // of standard error
	Text []byte
}

// ending is how a rank ended, or wants all to end.
type ending struct {
	Rank  int
	Code  int    // exit code, or 128 plus the signal
	State string // the same in words
}

// greeting begins a node's first line, so that what the shell of a host prints before is
// told from it.
const greeting = "bobnet-node "

// The limits of what a node may send, in bytes.
const (
	maxNoise   = 64 << 10 // before its greeting
	maxMessage = 16 << 20
)

// writer sends messages. It may be shared between goroutines.
type writer struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *writer) send(m *message) error { return w.line("", m) }

func (w *writer) line(prefix string, m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(append([]byte(prefix), text...), '\n'))
	return err
}

// errNoNode is wrapped by what is wrong with an answer that is none of a node.
var errNoNode = errors.New("what answers is no bobnet node")

// greet returns a node's hello, and skips what comes before it.
func greet(in *bufio.Reader) (*Inventory, error) {
	for noise := 0; noise <= maxNoise; {
		text, err := readLine(in, maxNoise)
		noise += len(text)
		if rest, ok := bytes.CutPrefix(text, []byte(greeting)); ok && err == nil {
			var m message
			if err := json.Unmarshal(rest, &m); err != nil || m.Hello == nil {
				return nil, fmt.Errorf("%w: it says %.100q", errNoNode, rest)
			}
			return m.Hello, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: it prints more than %d bytes first", errNoNode, maxNoise)
}

// receive returns the next message.
func receive(in *bufio.Reader) (*message, error) {
	text, err := readLine(in, maxMessage)
	if err != nil {
		return nil, err
	}
	m := &message{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: it says %.100q", errNoNode, text)
	}
	return m, nil
}

// readLine returns a line without its newline.
func readLine(in *bufio.Reader, most int) (text []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case err == nil:
			return text[:len(text)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		case len(text) > most:
			return text, fmt.Errorf("%w: a line has more than %d bytes", errNoNode, most)
		}
	}
}
